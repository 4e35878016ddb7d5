-- Records: laws 16 to 20 of package locker. They have a table of their own, because they outlive the rows of their keys.
-- A call first locks the row of its key, where it needs more than a look. Then a mark counts or does not, and stays so.
CREATE TABLE IF NOT EXISTS {R} (
  key   bytea   PRIMARY KEY,
  owner text    NOT NULL,               -- owner id of the claim that left it
  mark  boolean NOT NULL,               -- it counts while that claim does not own the key
  ends  bigint  NOT NULL,               -- until when it is there: µs since 1970 by this server's clock
  value bytea   NOT NULL
);
CREATE INDEX IF NOT EXISTS {X} ON {R} (ends);

-- One call of the batch in schema.sql, as far as it is about a record. It is called for
--   a  acquire, with flag 8: finds the record, and takes the claim out of the queue
--   k  release with a record: keeps it. All claims that recall leave the queue, and are told
--   r  release, with flag 2: removes the mark of a_owner
--   b  begin: marks the key, or finds the record of another claim
--   d  forget: deletes the record if it counts and is of a_owner, or finds its owner if that is ''
-- o_done says that nothing is left to do. o_kept says for k that the record is there, for b that the owner id owns the key, and
-- for d that there was a record. The row of the key stays locked until the end of the batch, so that law 17 holds.
CREATE OR REPLACE FUNCTION {B}(
  a_op text, k bytea, o text, a_ttl bigint, flags int, a_value bytea,
  OUT o_done boolean, OUT o_durable boolean, OUT o_kept boolean, OUT o_record bytea, OUT o_chans text[], OUT o_texts text[])
LANGUAGE plpgsql AS $f$
DECLARE
  r {T}%ROWTYPE;
  old {R}%ROWTYPE;
  now_us bigint; mine boolean; found_old boolean; counts boolean;
BEGIN
  o_done := false; o_durable := false; o_kept := false;
  IF a_op = 'a' THEN -- a record that is no mark needs no lock
    SELECT x.value INTO o_record FROM {R} AS x WHERE x.key = k AND NOT x.mark AND x.ends > {NOW};
    IF FOUND THEN
      o_done := true;
      RETURN;
    END IF;
  END IF;

  LOOP
    SELECT * INTO r FROM {T} AS l WHERE l.key = k FOR UPDATE;
    EXIT WHEN FOUND OR a_op NOT IN ('a', 'd');
    INSERT INTO {T} (key) VALUES (k) ON CONFLICT DO NOTHING; -- a row to lock
  END LOOP;
  now_us := {NOW};
  mine := coalesce(r.owner = o AND r.ends > now_us, false);
  SELECT * INTO old FROM {R} AS x WHERE x.key = k AND x.ends > now_us;
  found_old := FOUND;
  counts := found_old AND (old.mark AND old.owner = r.owner AND r.ends > now_us) IS NOT TRUE;

  CASE a_op
  WHEN 'a' THEN
    IF counts AND NOT mine THEN
      o_done := true; o_record := old.value;
      UPDATE {T} AS l SET queue = {W}(l.queue, o)
        WHERE l.key = k AND l.queue @> jsonb_build_array(jsonb_build_object('o', o));
    END IF;
  WHEN 'd' THEN
    o_done := true; o_kept := counts AND o IN ('', old.owner);
    IF o = '' THEN
      o_record := convert_to(old.owner, 'UTF8');
      RETURN;
    END IF;
    DELETE FROM {R} AS x WHERE x.key = k AND o_kept;
    o_durable := o_kept;
  WHEN 'r' THEN
    DELETE FROM {R} AS x WHERE x.key = k AND x.owner = o AND x.mark;
    o_durable := FOUND;
  WHEN 'b' THEN
    o_done := true; o_kept := mine;
    IF mine AND found_old AND old.owner <> o THEN
      o_record := old.value;
      RETURN;
    END IF;
  WHEN 'k' THEN
    o_kept := mine OR found_old AND old.owner = o AND NOT old.mark; -- by an earlier try
    SELECT array_agg(e ->> 'c'), array_agg(concat_ws(' ', 'k', encode(k, 'hex'), e ->> 'o')) INTO o_chans, o_texts
      FROM jsonb_array_elements(r.queue) AS e WHERE mine AND e ? 'y';
    IF o_chans IS NOT NULL THEN
      UPDATE {T} AS l SET queue = (SELECT coalesce(jsonb_agg(e.v ORDER BY e.n), '[]')
          FROM jsonb_array_elements(l.queue) WITH ORDINALITY AS e(v, n) WHERE NOT e.v ? 'y')
        WHERE l.key = k;
    END IF;
  END CASE;

  IF mine AND a_op IN ('b', 'k') THEN
    o_durable := true;
    INSERT INTO {R} AS x (key, owner, mark, ends, value) VALUES (k, o, a_op = 'b', now_us + a_ttl, a_value)
      ON CONFLICT (key) DO UPDATE
      SET owner = excluded.owner, mark = excluded.mark, ends = excluded.ends, value = excluded.value;
  END IF;
END $f$;
