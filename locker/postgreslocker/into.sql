-- One row of a key that has none.
INSERT INTO {T} AS t (k, version, written, ends, value, unaware)
SELECT $1, n.now, n.now, n.now + $2::bigint, $3::bytea, $6 FROM (SELECT {NOW} AS now OFFSET 0) AS n
WHERE NOT EXISTS (SELECT FROM {T} AS f WHERE f.k = $1 AND ($5 OR f.value <> ''))
ON CONFLICT (k) DO UPDATE SET version = greatest(t.version + 1, {NOW}), written = {NOW}, ends = {NOW} + $2, value = $3,
  unaware = $6
WHERE t.value = ''
RETURNING t.version, t.written, {COMMIT}, NULL
