-- One change of one row: its arguments are those of swap.sql, and messages that travel along. Mostly the change is carried out
-- without a lock before it. If not, the row is locked to learn what is there now.
WITH d AS MATERIALIZED ( -- processes that must hear and are gone
  SELECT m.instance FROM unnest(string_to_array($10::text, ',')) AS m(instance) WHERE NOT {ALIVE}
), u AS (
  UPDATE {T} AS t SET
    version = CASE $1::bigint WHEN 0 THEN greatest(t.version + 1, {NOW}) ELSE t.version END,
    written = CASE $1 WHEN 0 THEN {NOW} ELSE t.written END,
    ends = greatest({NOW} + $4::bigint, CASE WHEN $1 <> 0 THEN t.ends END),
    value = CASE $1 WHEN 0 THEN $5::bytea ELSE t.value END,
    tickets = CASE t.tickets WHEN '{}' THEN t.tickets ELSE ARRAY(
        SELECT e FROM unnest(t.tickets) AS e WHERE split_part(e, '/', 2) <> ALL (string_to_array($6::text, ','))) END
      || CASE WHEN $9::text <> '' THEN ARRAY[concat_ws('/', greatest({LAST} + 1, {NOW}), $9)] END
  WHERE t.k = $2::bytea AND NOT EXISTS (SELECT FROM d) AND CASE
    WHEN $1 = 0 THEN $3::bigint IN (-1, CASE t.value WHEN '' THEN 0 ELSE t.version END) AND (t.tickets = '{}' OR NOT EXISTS (
      SELECT FROM unnest(t.tickets) AS e, split_part(e, '/', 1) AS v -- nobody is overlooked
      WHERE split_part(e, '/', 2) <> ALL (string_to_array($6, ','))
        AND (v::bigint > $7::bigint OR v::bigint < $8::bigint AND e NOT LIKE '%/m.%')))
    WHEN t.value = '' THEN false
    WHEN $1 = 1 THEN get_byte(t.value, 0) NOT IN (33, 47) -- it begins with an owner id
    ELSE get_byte(t.value, 0) = 33 AND ($1 = 2 OR EXISTS ( -- it is open
      SELECT FROM unnest(t.tickets) AS e WHERE split_part(e, '/', 2) = ANY (string_to_array($6, ','))))
  END
  RETURNING CASE $1 WHEN 0 THEN t.version ELSE coalesce({LAST}, {NOW}) END AS next,
    CASE $1 WHEN 0 THEN t.written ELSE {NOW} END AS now, t.tickets
), l AS MATERIALIZED (
  SELECT version, written, value, tickets FROM {T} WHERE k = $2 AND NOT EXISTS (SELECT FROM u) FOR NO KEY UPDATE
), m AS (
  INSERT INTO {T} (k, version, written, ends, value)
  SELECT $2, now, now, now + $4, $5 FROM (SELECT {NOW} AS now OFFSET 0) AS n
  WHERE $1 = 0 AND $3 IN (-1, 0) AND NOT EXISTS (SELECT FROM u) AND NOT EXISTS (SELECT FROM l) AND NOT EXISTS (SELECT FROM d)
  RETURNING version AS next, written AS now, tickets
)
SELECT 1, x.next IS NOT NULL, false, coalesce(x.next, 0), coalesce(x.now, {NOW}), CASE l.value WHEN '' THEN 0 ELSE coalesce(l.version, 0) END,
  coalesce(l.written, 0), l.value, coalesce(x.tickets, l.tickets), ARRAY(SELECT instance FROM d),
  {COMMIT}, (SELECT count(pg_notify('guard:' || m.instance, concat($13::text, ' ', x.next, ' ', x.now, $14::text)))
    FROM unnest(string_to_array($12::text, ',')) AS m(instance) WHERE x.next IS NOT NULL)
FROM (VALUES ($11::boolean)) AS c(firm) LEFT JOIN (SELECT * FROM u UNION ALL SELECT * FROM m) AS x ON true LEFT JOIN l ON true
