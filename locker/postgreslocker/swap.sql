-- One statement for many changes, each of which is done as a whole or not at all. All rows are locked in the order of their
-- keys before the first is written, and read as they are then: who is refused learns what is there.
WITH c AS MATERIALIZED (
  SELECT kind, k, old, keep, value, string_to_array(drops, ',') AS drops, beside, behind, ticket, string_to_array(must, ',') AS must,
    firm, i, n
  FROM unnest($1::bigint[], $2::bytea[], $3::bigint[], $4::bigint[], $5::bytea[], $6::text[], $7::bigint[], $8::bigint[], $9::text[],
    $10::text[], $11::boolean[], $12::bigint[]) WITH ORDINALITY
    AS c(kind, k, old, keep, value, drops, beside, behind, ticket, must, firm, i, n)
), l AS MATERIALIZED (
  SELECT k, version, written, value, tickets FROM {T} WHERE k = ANY ($2) ORDER BY k FOR NO KEY UPDATE {SKIP}
), d AS MATERIALIZED ( -- processes that must hear and are gone
  SELECT c.i, m.instance FROM c, unnest(c.must) AS m(instance) WHERE NOT {ALIVE}
), x AS MATERIALIZED (
  SELECT y.*, bool_and(ok) OVER w AND NOT EXISTS (SELECT FROM d WHERE d.i = y.i) AS done, greatest(max(last) OVER w + 1, now) AS next
  FROM (
    SELECT c.*, now, l.version AS at, l.written, l.value AS was, l.tickets, r.rest, {SKIPPED} AS skipped,
      NOT {SKIPPED} AND coalesce(CASE
        WHEN c.kind = 0 THEN c.old IN (-1, CASE l.value WHEN '' THEN 0 ELSE coalesce(l.version, 0) END) AND NOT EXISTS (
          SELECT FROM unnest(r.rest) AS e, split_part(e, '/', 1) AS v -- nobody is overlooked
          WHERE v::bigint > c.beside OR v::bigint < c.behind AND e NOT LIKE '%/m.%')
        WHEN l.value = '' THEN false
        WHEN c.kind = 1 THEN get_byte(l.value, 0) NOT IN (33, 47) -- it begins with an owner id
        ELSE get_byte(l.value, 0) = 33 AND (c.kind = 2 OR cardinality(r.rest) < cardinality(l.tickets)) -- it is open
      END, false) AS ok,
      CASE c.kind WHEN 0 THEN l.version ELSE split_part(l.tickets[cardinality(l.tickets)], '/', 1)::bigint END AS last
    FROM (SELECT {NOW} AS now FROM (SELECT count(*) FROM l) AS all_locks OFFSET 0) AS n
    CROSS JOIN c LEFT JOIN l ON l.k = c.k
    CROSS JOIN LATERAL (SELECT CASE WHEN l.tickets = '{}' THEN l.tickets ELSE ARRAY(
      SELECT e FROM unnest(l.tickets) AS e WHERE split_part(e, '/', 2) <> ALL (c.drops)) END) AS r(rest)
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
  ARRAY(SELECT d.instance FROM d WHERE d.i = x.i),
  {COMMIT}, NULL
FROM x
