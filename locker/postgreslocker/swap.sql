-- One statement for many changes, each of which is done as a whole or not at all. All rows are locked in the order of their
-- keys before the first is written, and read as they are then: who is refused learns what is there.
WITH {CHANGES}, l AS MATERIALIZED (
  SELECT k, version, written, value, tickets FROM {T} WHERE k = ANY ((SELECT $2)::bytea[]) ORDER BY k FOR NO KEY UPDATE {SKIP}
), x AS MATERIALIZED (
  SELECT y.*, bool_and(ok) OVER w AND NOT EXISTS (SELECT FROM d WHERE d.i = y.i) AS done, greatest(max(last) OVER w + 1, now) AS next
  FROM (
    SELECT c.*, now, t.version AS at, t.written, t.value AS was, t.tickets, {REST} AS rest, {SKIPPED} AS skipped,
      NOT {SKIPPED} AND {OK} AS ok, CASE c.kind WHEN 0 THEN t.version ELSE {LAST} END AS last
    FROM (SELECT {NOW} AS now FROM (SELECT count(*) FROM l) AS all_locks OFFSET 0) AS n
    CROSS JOIN c LEFT JOIN l AS t ON t.k = c.k
  ) AS y WINDOW w AS (PARTITION BY i)
), written AS (
  UPDATE {T} AS t SET
    version = CASE x.kind WHEN 0 THEN x.next ELSE t.version END,
    written = CASE x.kind WHEN 0 THEN x.now ELSE t.written END,
    ends = CASE x.kind WHEN 0 THEN x.now + x.keep ELSE greatest(t.ends, x.now + x.keep) END,
    value = CASE x.kind WHEN 0 THEN x.value ELSE t.value END,
    tickets = CASE x.ticket WHEN '' THEN x.rest ELSE x.rest || concat_ws('/', x.next, x.ticket) END
  FROM x WHERE t.k = x.k AND x.done AND x.at IS NOT NULL
), made AS (
  INSERT INTO {T} (k, version, written, ends, value)
  SELECT x.k, x.next, x.now, x.now + x.keep, x.value FROM x WHERE x.done AND x.at IS NULL AND x.value <> '' ORDER BY x.k
)
SELECT x.n, x.done, x.skipped, x.next, x.now, CASE x.was WHEN '' THEN 0 ELSE coalesce(x.at, 0) END, coalesce(x.written, 0),
  CASE WHEN NOT x.done THEN x.was END, CASE WHEN x.done THEN x.rest ELSE x.tickets END,
  ARRAY(SELECT d.instance FROM d WHERE d.i = x.i), {COMMIT}, {NOTIFY}
FROM x
