-- One change of one row. Mostly it is carried out without a lock before it. If not, the row is locked to learn what is there now.
WITH {CHANGES}, u AS (
  UPDATE {T} AS t SET
    version = CASE c.kind WHEN 0 THEN greatest(t.version + 1, {NOW}) ELSE t.version END,
    written = CASE c.kind WHEN 0 THEN {NOW} ELSE t.written END,
    ends = greatest({NOW} + c.keep, CASE WHEN c.kind <> 0 THEN t.ends END),
    value = CASE c.kind WHEN 0 THEN c.value ELSE t.value END,
    tickets = {REST} || CASE WHEN c.ticket <> '' THEN ARRAY[concat_ws('/', greatest({LAST} + 1, {NOW}), c.ticket)] END
  FROM c WHERE t.k = c.k AND {OK} AND NOT EXISTS (SELECT FROM d)
  RETURNING CASE c.kind WHEN 0 THEN t.version ELSE coalesce({LAST}, {NOW}) END AS next,
    CASE c.kind WHEN 0 THEN t.written ELSE {NOW} END AS now, t.tickets
), l AS MATERIALIZED (
  SELECT version, written, value, tickets FROM {T} WHERE k = (SELECT k FROM c) AND NOT EXISTS (SELECT FROM u) FOR NO KEY UPDATE
), m AS (
  INSERT INTO {T} (k, version, written, ends, value)
  SELECT c.k, now, now, now + c.keep, c.value FROM c, (SELECT {NOW} AS now OFFSET 0) AS n WHERE c.kind = 0 AND c.old IN (-1, 0)
    AND NOT EXISTS (SELECT FROM u) AND NOT EXISTS (SELECT FROM l) AND NOT EXISTS (SELECT FROM d)
  RETURNING version AS next, written AS now, tickets
), x AS MATERIALIZED (
  SELECT c.*, o.next IS NOT NULL AS done, o.next, o.now, o.tickets
  FROM c LEFT JOIN (SELECT * FROM u UNION ALL SELECT * FROM m) AS o ON true
)
SELECT 1, x.done, false, coalesce(x.next, 0), coalesce(x.now, {NOW}), CASE l.value WHEN '' THEN 0 ELSE coalesce(l.version, 0) END,
  coalesce(l.written, 0), l.value, coalesce(x.tickets, l.tickets), ARRAY(SELECT instance FROM d), {COMMIT}, {NOTIFY}
FROM x LEFT JOIN l ON true
