package postgreslocker

import (
	_ "embed"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/go-lockguard/guard/locker"
)

var (
	//go:embed schema.sql
	baseSQL string
	//go:embed crowd.sql
	crowdSQL string
	//go:embed all.sql
	allSQL string
	//go:embed record.sql
	recordSQL string
)

const (
	// version is in the names of the functions. A change of their text is a new
	// version, because processes of the old one run beside it during a deploy.
	version = "3"

	seed    = 7310863 // of the advisory locks
	listMax = 200     // keys on a page of List
	clock   = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
	touch   = 400_000 // microseconds in which a look is not written again
	unseen  = 2 * locker.LookEvery
)

// statements are the requests, for one table.
type statements struct {
	schema, name      string                   // name: of the table, without its schema
	tables, functions []string                 // tables: of leases, of records
	fill              func(text string) string // puts names into SQL

	call, renewFree, renew, stayFree, stay, all, poll, one, list, sweep, sweepRecords string
}

// statementsFor returns the statements for a table, perhaps with its schema, and
// a version of the functions.
func statementsFor(name, version string) (*statements, error) {
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
	s := &statements{name: parts[len(parts)-1], tables: []string{ident(""), ident("_record")}}
	index := pgx.Identifier{s.name + "_record_ends"}.Sanitize() // in the schema of its table
	names := []string{"{T}", s.tables[0], "{R}", s.tables[1], "{X}", index}
	for _, f := range [][2]string{
		{"{F}", "do"},
		{"{W}", "without"},
		{"{G}", "gone"},
		{"{S}", "shares"},
		{"{P}", "put"},
		{"{I}", "insert"},
		{"{C}", "crowd"},
		{"{K}", "stay"},
		{"{A}", "all"},
		{"{B}", "beside"},
	} {
		name := ident("_" + f[1] + "_" + version)
		names, s.functions = append(names, f[0], name), append(s.functions, name)
	}
	names = append(names, "{NOW}", clock,
		"{LIFE}", strconv.FormatInt(locker.QueueLife.Microseconds(), 10), "{TOUCH}", strconv.Itoa(touch),
		"{SEEN}", strconv.FormatInt(unseen.Microseconds(), 10), "{NO_LIMIT}", strconv.Itoa(locker.NoLimit),
		"{SEED}", strconv.Itoa(seed), "{MOST}", strconv.Itoa(locker.MaxListed), "{PAGE}", strconv.Itoa(listMax))
	fill := strings.NewReplacer(names...).Replace
	s.fill = fill
	s.schema = fill(lockSQL + baseSQL + "\n" + crowdSQL + "\n" + allSQL + "\n" + recordSQL)
	s.call, s.poll, s.sweep, s.sweepRecords = fill(callSQL), fill(pollSQL), fill(sweepSQL), fill(sweepRecordsSQL)
	s.renew, s.stay, s.all = fill(renewSQL), fill(staySQL), fill(togetherSQL)
	s.renewFree = strings.Replace(s.renew, "FOR UPDATE OF l", "FOR UPDATE OF l SKIP LOCKED", 1)
	s.stayFree = strings.Replace(s.stay, "$4::text, false", "$4::text, true", 1)
	s.one, s.list = fill(stateSQL+oneSQL), fill(stateSQL+pageSQL)
	return s, nil
}

const (
	// lockSQL has sessions that make the tables at once wait for one another.
	lockSQL = "DO $$ BEGIN PERFORM pg_advisory_xact_lock({SEED}, 0); END $$;\n"

	callSQL = `SELECT * FROM {F}($1::text[], $2::bytea[], $3::text[], $4::text[], $5::bigint[], $6::bigint[],
  $7::bigint[], $8::boolean[], $9::text[], $10::text[], $11::bigint[], $12::int[], $13::bigint[], $14::bytea[])`

	// The order before FOR UPDATE keeps it from deadlocks. The commit waits for
	// the disk even if the server does not by itself.
	renewSQL = `WITH c AS MATERIALIZED (
  SELECT l.key, c.ttl FROM unnest($1::bytea[], $2::text[], $3::bigint[]) AS c(key, owner, ttl)
  JOIN {T} AS l ON l.key = c.key AND l.owner = c.owner AND l.ends > {NOW}
  ORDER BY l.key FOR UPDATE OF l)
UPDATE {T} AS l SET ends = {NOW} + c.ttl, chan = $4 FROM c WHERE l.key = c.key AND l.ends > {NOW}
RETURNING l.owner, l.queue <> '[]', CASE current_setting('synchronous_commit')
  WHEN 'off' THEN set_config('synchronous_commit', 'on', true) END`

	staySQL = `SELECT s.o_owner, s.o_waits, NULL::text FROM {K}($1::bytea[], $2::text[], $3::bigint[], $4::text, false) AS s`

	togetherSQL = `SELECT * FROM {A}($1::bytea[], $2::text[], $3::text[], $4::bigint, $5::boolean, $6::text, $7::boolean)`

	pollSQL = `SELECT l.key, c.owner, coalesce(s.v ->> 'c', l.chan), coalesce((s.v ->> 't')::bigint, l.token),
  jsonb_array_length(l.queue)
FROM unnest($1::bytea[], $2::text[]) AS c(key, owner)
JOIN {T} AS l ON l.key = c.key AND l.ends > {NOW}
LEFT JOIN LATERAL jsonb_array_elements(CASE l.owner WHEN '*' THEN l.holder::jsonb ELSE '[]' END) AS s(v)
  ON s.v ->> 'o' = c.owner AND (s.v ->> 'e')::bigint > {NOW}
WHERE l.owner = c.owner OR s.v IS NOT NULL
UNION ALL SELECT x.key, c.owner, '', 0, -1 FROM unnest($1::bytea[], $2::text[]) AS c(key, owner)
LEFT JOIN {T} AS l ON l.key = c.key JOIN {R} AS x ON x.key = c.key` + countsSQL + `
WHERE (l.queue @> jsonb_build_array(jsonb_build_object('o', c.owner))) IS NOT TRUE`

	// Whether a record counts, see record.sql.
	countsSQL = ` AND x.ends > {NOW} AND (x.mark AND x.owner = l.owner AND l.ends > {NOW}) IS NOT TRUE`

	stateSQL = `SELECT l.key, coalesce(l.owner, ''), coalesce(l.holder, ''), coalesce(l.ends - {NOW}, 0),
  (SELECT count(*) FROM jsonb_array_elements(l.queue) e WHERE (e ->> 's')::bigint > {NOW} - {LIFE}),
  (SELECT coalesce(jsonb_agg(jsonb_build_object('o', e.v ->> 'o', 'h', e.v ->> 'h') ORDER BY e.n), '[]')
   FROM jsonb_array_elements(l.queue) WITH ORDINALITY AS e(v, n)
   WHERE (e.v ->> 's')::bigint > {NOW} - {LIFE} AND e.n <= {MOST}),
  CASE l.owner WHEN '*' THEN {S}(l, {NOW}) END, coalesce(octet_length(x.value), 0), coalesce(x.ends - {NOW}, 0),
  coalesce(substring(x.value FOR 3), '')
FROM `
	oneSQL = `(SELECT $1::bytea AS key) AS q LEFT JOIN {T} AS l ON l.key = q.key
LEFT JOIN {R} AS x ON x.key = q.key` + countsSQL
	pageSQL = `{T} AS l LEFT JOIN {R} AS x ON x.key = l.key` + countsSQL + `
WHERE l.key > $1 AND (l.owner <> '' AND l.ends > {NOW} OR l.queue <> '[]') ORDER BY l.key LIMIT {PAGE}`

	// The token starts again from the clock, which is ahead by then.
	sweepSQL = `DELETE FROM {T} WHERE key IN (SELECT l.key FROM {T} AS l
  WHERE greatest(l.ends, l.token) < {NOW} - $1::bigint AND NOT EXISTS (
    SELECT FROM jsonb_array_elements(l.queue) e WHERE (e ->> 's')::bigint > {NOW} - {LIFE})
  LIMIT 1000 FOR UPDATE SKIP LOCKED)`

	sweepRecordsSQL = `DELETE FROM {R} WHERE key IN (
  SELECT x.key FROM {R} AS x WHERE x.ends < {NOW} LIMIT 1000 FOR UPDATE SKIP LOCKED)`
)
