package postgreslocker

import (
	_ "embed"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

var (
	//go:embed schema.sql
	schemaSQL string
	//go:embed swap.sql
	swapSQL string
	//go:embed changes.sql
	changesSQL string
	//go:embed one.sql
	oneSQL string
)

const (
	seed  = 7310863 // of the advisory locks
	clock = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"

	// What the two statements that write share, about c and the row t of its
	// key: the version of the newest ticket, the tickets that stay, and whether
	// the row may be written.
	lastSQL = `split_part(t.tickets[cardinality(t.tickets)], '/', 1)::bigint`
	restSQL = `CASE t.tickets WHEN '{}' THEN t.tickets ELSE ARRAY(
      SELECT e FROM unnest(t.tickets) AS e WHERE split_part(e, '/', 2) <> ALL (c.drops)) END`
	okSQL = `coalesce(CASE
      WHEN c.kind = 0 THEN c.old IN (-1, CASE t.value WHEN '' THEN 0 ELSE coalesce(t.version, 0) END) AND NOT EXISTS (
        SELECT FROM unnest(t.tickets) AS e, split_part(e, '/', 1) AS v -- nobody is overlooked
        WHERE split_part(e, '/', 2) <> ALL (c.drops)
          AND (v::bigint > c.beside OR v::bigint < c.behind AND e NOT LIKE '%/m.%'))
      WHEN t.value = '' THEN false
      WHEN c.kind = 1 THEN get_byte(t.value, 0) NOT IN (33, 47) -- it begins with an owner id
      ELSE get_byte(t.value, 0) = 33 AND (c.kind = 2 OR EXISTS ( -- it is open
        SELECT FROM unnest(t.tickets) AS e WHERE split_part(e, '/', 2) = ANY (c.drops)))
    END, false)`
	// commitSQL lets a change that a crash may undo not wait for the disk.
	commitSQL = `(SELECT set_config('synchronous_commit',
      CASE WHEN NOT f.firm THEN 'off' WHEN f.was = 'off' THEN 'on' ELSE f.was END, true)
    FROM (SELECT coalesce(bool_or(done AND firm), false), current_setting('synchronous_commit') FROM x) AS f(firm, was))`
	notifySQL = `(SELECT count(pg_notify('guard:' || m.instance, concat(x.head, ' ', x.next, ' ', x.now, x.tail)))
    FROM x, unnest(string_to_array(x.tell, ',')) AS m(instance) WHERE x.done)`

	rowSQL = `coalesce(t.version, 0), coalesce(t.written, 0), t.value, t.tickets, {NOW}, ` +
		`current_setting('transaction_read_only') = 'on'`
	loadSQL = `SELECT c.k, ` + rowSQL + ` FROM unnest((SELECT $1::bytea[])) WITH ORDINALITY AS c(k, n)
LEFT JOIN {T} AS t ON t.k = c.k AND t.value <> '' ORDER BY c.n`
	scanSQL = `SELECT t.k, ` + rowSQL + ` FROM {T} AS t WHERE t.k > $1 AND t.value <> '' ORDER BY t.k LIMIT $2`

	beatSQL = `INSERT INTO {P} AS p VALUES ($1, {NOW} + $2, $3)
ON CONFLICT (instance) DO UPDATE SET ends = excluded.ends, hears = excluded.hears
RETURNING set_config('synchronous_commit', 'off', true)`
	deadSQL = `SELECT m.instance FROM unnest($1::text[]) AS m(instance) WHERE NOT {ALIVE}`

	// aliveSQL gives the lock back at once: another transaction that asks for
	// the same process must not take this one for its session that listens.
	aliveSQL = `EXISTS (SELECT FROM {P} AS p WHERE p.instance = m.instance AND p.ends > {NOW} AND CASE
    WHEN NOT p.hears THEN true
    WHEN pg_try_advisory_lock(hashtextextended('guard:' || m.instance, {SEED}))
    THEN NOT pg_advisory_unlock(hashtextextended('guard:' || m.instance, {SEED})) ELSE true END)`

	sweepSQL = `DELETE FROM {T} WHERE k IN (
  SELECT k FROM {T} WHERE ends < {NOW} - $1 LIMIT 1000 FOR UPDATE SKIP LOCKED) RETURNING true`
	burySQL = `DELETE FROM {P} WHERE instance IN (
  SELECT instance FROM {P} WHERE ends < {NOW} - $1 LIMIT 1000 FOR UPDATE SKIP LOCKED) RETURNING true`
)

// statements are the requests, for one table.
type statements struct {
	name   string   // of the table, without its schema
	tables []string // of rows, of processes
	schema string

	// swapFree leaves out the rows that somebody else has locked.
	one, swap, swapFree, load, scan, beat, dead, sweep, bury string
}

// statementsFor returns the statements for a table, perhaps with its schema.
func statementsFor(name string) (*statements, error) {
	parts := strings.Split(name, ".")
	for _, part := range parts {
		if part == "" || len(parts) > 2 || len(part) > 50 || strings.ContainsRune(part, 0) {
			return nil, invalid("the table %q is no name, or too long: want table or schema.table", name)
		}
	}
	ident := func(suffix string) string {
		of := append([]string(nil), parts...)
		of[len(of)-1] += suffix
		return pgx.Identifier(of).Sanitize()
	}
	s := &statements{name: parts[len(parts)-1], tables: []string{ident(""), ident("_process")}}
	fill := func(text string) string {
		text = strings.NewReplacer("{CHANGES}", strings.TrimSpace(changesSQL), "{REST}", restSQL, "{OK}", okSQL,
			"{LAST}", lastSQL, "{COMMIT}", commitSQL, "{NOTIFY}", notifySQL).Replace(text)
		text = strings.ReplaceAll(text, "{ALIVE}", aliveSQL)
		return strings.NewReplacer(
			"{T}", s.tables[0], "{P}", s.tables[1], "{NOW}", clock, "{SEED}", strconv.Itoa(seed)).Replace(text)
	}
	s.schema, s.load, s.scan = fill(schemaSQL), fill(loadSQL), fill(scanSQL)
	s.beat, s.dead, s.sweep, s.bury = fill(beatSQL), fill(deadSQL), fill(sweepSQL), fill(burySQL)
	s.one = fill(oneSQL)
	s.swap = fill(strings.NewReplacer("{SKIP}", "", "{SKIPPED}", "false").Replace(swapSQL))
	s.swapFree = fill(strings.NewReplacer("{SKIP}", "SKIP LOCKED",
		"{SKIPPED}", "(t.version IS NULL AND EXISTS (SELECT FROM {T} AS r WHERE r.k = c.k))").Replace(swapSQL))
	return s, nil
}
