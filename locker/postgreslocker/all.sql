-- Rows that are written together, or none of them. All are locked in the order of their keys before the first is written, and
-- read as they are then.
WITH c AS MATERIALIZED ( -- by SELECT, the server plans for any number, and once
  SELECT * FROM unnest((SELECT $1::bytea[]), (SELECT $2::bigint[]), (SELECT $3::bytea[]), (SELECT $5::text[]),
    (SELECT $6::bigint[]), (SELECT $7::bigint[]), (SELECT $8::bigint[]), (SELECT $10::text[]))
    AS c(k, keep, value, drops, old, beside, behind, unaware)
), l AS MATERIALIZED (
  SELECT k, version, value, tickets FROM {T} WHERE k = ANY ((SELECT $1)::bytea[]) ORDER BY k FOR NO KEY UPDATE
), x AS MATERIALIZED (
  SELECT greatest(max(t.version) + 1, max(now)) AS next, max(now) AS now
  FROM (SELECT {NOW} AS now FROM (SELECT count(*) FROM l) AS all_locks OFFSET 0) AS n CROSS JOIN c LEFT JOIN l AS t ON t.k = c.k
  HAVING bool_and(c.old IN (-1, CASE t.value WHEN '' THEN 0 ELSE coalesce(t.version, 0) END) AND {KNOWN}) {HEARD}
), written AS (
  UPDATE {T} AS t SET version = x.next, written = x.now, ends = x.now + c.keep, value = c.value,
    unaware = c.unaware, tickets = {REST}
  FROM x, c WHERE t.k = c.k
), made AS (
  INSERT INTO {T} (k, version, written, ends, value, unaware)
  SELECT c.k, x.next, x.now, x.now + c.keep, c.value, c.unaware FROM x, c
  WHERE c.value <> '' AND NOT EXISTS (SELECT FROM l WHERE l.k = c.k) ORDER BY c.k
)
SELECT x.next, x.now, {COMMIT}, NULL FROM x
