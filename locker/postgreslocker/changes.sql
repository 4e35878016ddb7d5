c AS MATERIALIZED ( -- rows of changes; by SELECT, the server plans for any number, and once
  SELECT kind, k, old, keep, value, string_to_array(drops, ',') AS drops, beside, behind, ticket, must, firm, i,
    tell, head, tail, n
  FROM unnest((SELECT $1::bigint[]), (SELECT $2::bytea[]), (SELECT $3::bigint[]), (SELECT $4::bigint[]), (SELECT $5::bytea[]),
    (SELECT $6::text[]), (SELECT $7::bigint[]), (SELECT $8::bigint[]), (SELECT $9::text[]), (SELECT $10::text[]),
    (SELECT $11::boolean[]), (SELECT $12::bigint[]), (SELECT $13::text[]), (SELECT $14::text[]), (SELECT $15::text[]))
    WITH ORDINALITY AS c(kind, k, old, keep, value, drops, beside, behind, ticket, must, firm, i, tell, head, tail, n)
), d AS MATERIALIZED ( -- processes that must hear and are gone
  SELECT c.i, m.instance FROM c, unnest(string_to_array(c.must, ',')) AS m(instance) WHERE NOT {ALIVE}
)
