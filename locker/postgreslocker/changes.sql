c AS MATERIALIZED ( -- rows of changes
  SELECT kind, k, old, keep, value, string_to_array(drops, ',') AS drops, beside, behind, ticket, must, firm, i, tell, head, tail, n
  FROM unnest($1::bigint[], $2::bytea[], $3::bigint[], $4::bigint[], $5::bytea[], $6::text[], $7::bigint[], $8::bigint[], $9::text[],
    $10::text[], $11::boolean[], $12::bigint[], $13::text[], $14::text[], $15::text[]) WITH ORDINALITY
    AS c(kind, k, old, keep, value, drops, beside, behind, ticket, must, firm, i, tell, head, tail, n)
), d AS MATERIALIZED ( -- processes that must hear and are gone
  SELECT c.i, m.instance FROM c, unnest(string_to_array(c.must, ',')) AS m(instance) WHERE NOT {ALIVE}
)
