-- One ticket that comes beside a row, or goes: $7 says that the row must be open, and $8 that the ticket is there.
-- The owner is told of the first claim that waits, unless another statement does that. A message wakes the sessions of all
-- processes.
UPDATE {T} AS t SET ends = greatest(t.ends, {NOW} + $2),
  tickets = {REST} || CASE WHEN $3 <> '' THEN ARRAY[concat_ws('/', greatest({LAST} + 1, {NOW}), $3)] END
WHERE t.k = $1 AND t.value <> '' AND {FREE} AND CASE
  WHEN NOT $7 THEN get_byte(t.value, 0) NOT IN (33, 47) -- it begins with an owner id
  ELSE get_byte(t.value, 0) = 33 AND (NOT $8 OR EXISTS (
    SELECT FROM unnest(t.tickets) AS e WHERE split_part(e, '/', 2) = $6)) END
RETURNING coalesce({LAST}, {NOW}), {NOW}, {COMMIT},
  CASE WHEN NOT $4 AND t.unaware <> '' AND (SELECT count(*) FROM unnest(t.tickets) AS e WHERE e NOT LIKE '%/m.%') = 1
    THEN {NOTIFY} END
