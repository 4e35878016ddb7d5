-- One row that is written over the version $6 of its key, while tickets may stand beside it, or a process is told.
UPDATE {T} AS t SET version = greatest(t.version + 1, {NOW}), written = {NOW}, ends = {NOW} + $2, value = $3, unaware = $12,
  tickets = {REST}
WHERE t.k = $1 AND t.version = $6 AND t.value <> '' AND {KNOWN} AND {FREE} {HEARD}
RETURNING t.version, t.written, {COMMIT}, {NOTIFY}
