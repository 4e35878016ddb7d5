-- One row that is written over the version $6 of its key, while no ticket stands beside it. This is what nearly all requests are.
UPDATE {T} AS t SET version = greatest(t.version + 1, {NOW}), written = {NOW}, ends = {NOW} + $2, value = $3, unaware = $7
WHERE t.k = $1 AND t.version = $6 AND t.value <> '' AND t.tickets = '{}' AND {FREE}
RETURNING t.version, t.written, {COMMIT}, NULL
