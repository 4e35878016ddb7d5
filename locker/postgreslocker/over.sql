-- One row that is written over the version $7 of its key.
UPDATE {T} AS t SET version = greatest(t.version + 1, {NOW}), written = {NOW}, ends = {NOW} + $2, value = $3, tickets = {REST}
WHERE t.k = $1 AND t.version = $7 AND t.value <> '' AND {KNOWN} AND {FREE} {HEARD}
RETURNING t.version, t.written, t.tickets, {COMMIT}, {NOTIFY}
