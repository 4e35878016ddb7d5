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
	//go:embed over.sql
	overSQL string
	//go:embed told.sql
	toldSQL string
	//go:embed into.sql
	intoSQL string
	//go:embed join.sql
	joinSQL string
	//go:embed all.sql
	allSQL string
)

const (
	seed  = 7310863 // of the advisory locks
	clock = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"

	// What the statements that write share, about the row t: the version of its
	// newest ticket, the tickets that stay, and whether the others are known.
	lastSQL = `split_part(t.tickets[cardinality(t.tickets)], '/', 1)::bigint`
	restSQL = `CASE t.tickets WHEN '{}' THEN t.tickets ELSE ARRAY(
    SELECT e FROM unnest(t.tickets) AS e WHERE split_part(e, '/', 2) <> ALL (string_to_array({DROPS}, ','))) END`
	knownSQL = `(t.tickets = '{}' OR NOT EXISTS (
    SELECT FROM unnest(t.tickets) AS e, split_part(e, '/', 1) AS v
    WHERE split_part(e, '/', 2) <> ALL (string_to_array({DROPS}, ','))
      AND (v::bigint > {BESIDE} OR v::bigint < {BEHIND} AND e NOT LIKE '%/m.%')))`
	// freeSQL lets a request for many rows not wait for one that somebody else
	// has locked, or has locked since it was written.
	freeSQL = `(NOT $5 OR t.xmax = 0)`
	// heardSQL refuses what must be heard by a process that is gone.
	heardSQL = `AND NOT EXISTS (SELECT FROM unnest(string_to_array({MUST}, ',')) AS m(instance) WHERE NOT {ALIVE})`
	// commitSQL lets changes that a crash may undo not wait for the disk.
	commitSQL = `CASE WHEN NOT $4 THEN set_config('synchronous_commit', 'off', true)
  WHEN current_setting('synchronous_commit') = 'off' THEN set_config('synchronous_commit', 'on', true) END`
	// newsSQL is the message of the row t: "r KEY VERSION WRITTEN VALUE TICKET
	// ...", in base64, without the last ones if they are too long.
	newsSQL = `concat_ws(' ', 'r', encode(t.k, 'base64'), t.version, t.written, CASE
  WHEN octet_length(t.value) < 5100 THEN encode(t.value, 'base64') END, CASE
  WHEN octet_length(t.value) * 11 / 8 + octet_length(array_to_string(t.tickets, ' ')) < 7000
  THEN array_to_string(t.tickets, ' ') END)`
	// newsOfTicketSQL is that of a ticket e beside it: "t KEY TICKET".
	newsOfTicketSQL = `concat_ws(' ', 't', encode(t.k, 'base64'), e)`
	notifySQL       = `(SELECT count(pg_notify('guard:' || m.instance, {NEWS}))
  FROM unnest(string_to_array({TELL}, ',')) AS m(instance))`
	// afterSQL tells what a transaction before has done, and has waited for the
	// disk: transactions that notify wait for one another. Each row is as it is
	// by now, if it is a later one than was known.
	afterSQL = `SELECT set_config('synchronous_commit', 'off', true), pg_notify('guard:' ||
  CASE WHEN m.ticket <> '' AND t.unaware <> '' THEN t.unaware ELSE m.instance END, CASE m.ticket
  WHEN '' THEN ` + newsSQL + ` ELSE (SELECT ` + newsOfTicketSQL + ` FROM unnest(t.tickets) AS e
    WHERE split_part(e, '/', 2) = m.ticket) END)
FROM unnest((SELECT $1::bytea[]), (SELECT $2::bigint[]), (SELECT $3::text[]), (SELECT $4::text[]))
  AS m(k, old, ticket, instance) JOIN {T} AS t ON t.k = m.k AND t.version > m.old`

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

	over, told, into, join, all, after  string // which write, or tell
	load, scan, beat, dead, sweep, bury string
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
	fill := func(text string, with ...string) string {
		names := strings.NewReplacer(append(with,
			"{REST}", restSQL, "{KNOWN}", knownSQL, "{LAST}", lastSQL, "{FREE}", freeSQL, "{COMMIT}", commitSQL,
			"{ALIVE}", aliveSQL, "{NOW}", clock, "{SEED}", strconv.Itoa(seed))...)
		for before := ""; before != text; { // what stands for a name has names too
			before, text = text, names.Replace(text)
		}
		return strings.NewReplacer("{T}", s.tables[0], "{P}", s.tables[1]).Replace(text)
	}
	s.schema, s.load, s.scan = fill(schemaSQL), fill(loadSQL), fill(scanSQL)
	s.beat, s.dead, s.sweep, s.bury = fill(beatSQL), fill(deadSQL), fill(sweepSQL), fill(burySQL)
	s.over, s.into, s.after = fill(overSQL), fill(intoSQL), fill(afterSQL)
	s.told = fill(toldSQL, "{DROPS}", "$7", "{BESIDE}", "$8", "{BEHIND}", "$9", "{HEARD}", heardSQL, "{MUST}", "$10",
		"{NOTIFY}", notifySQL, "{TELL}", "$11", "{NEWS}", newsSQL)
	s.join = fill(joinSQL, "{DROPS}", "$6", "{NOTIFY}", notifySQL, "{TELL}", "t.unaware",
		"{NEWS}", strings.Replace(newsOfTicketSQL, "e)", "t.tickets[cardinality(t.tickets)])", 1))
	s.all = fill(allSQL, "{DROPS}", "c.drops", "{BESIDE}", "c.beside", "{BEHIND}", "c.behind", "{HEARD}", heardSQL,
		"{MUST}", "$9")
	return s, nil
}
