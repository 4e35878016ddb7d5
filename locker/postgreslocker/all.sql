-- all makes claims the owners of several keys, which the caller has sorted: of all of them, or with a_prefix of those in front of
-- the first that somebody else owns, else of none. It returns who that is, and how many claims own their keys now, with the
-- first token of each. The rows are locked in the order of their keys, as in a batch of calls.
CREATE OR REPLACE FUNCTION {A}(
  a_key bytea[], a_owner text[], a_holder text[], a_ttl bigint, a_fence boolean, a_chan text, a_prefix boolean,
  OUT o_held int, OUT o_holder text, OUT o_remain bigint, OUT o_tokens bigint[])
LANGUAGE plpgsql AS $f$
DECLARE
  r {T}%ROWTYPE;
  now_us bigint; last bigint;
BEGIN
  o_held := cardinality(a_key); o_holder := ''; o_remain := 0; o_tokens := '{}';
  FOR i IN 1 .. cardinality(a_key) LOOP
    LOOP
      SELECT * INTO r FROM {T} AS l WHERE l.key = a_key[i] FOR UPDATE;
      EXIT WHEN FOUND;
      INSERT INTO {T} (key) VALUES (a_key[i]) ON CONFLICT DO NOTHING;
    END LOOP;
    now_us := {NOW};
    IF r.owner NOT IN ('', a_owner[i]) AND r.ends > now_us THEN
      o_held := i - 1; o_remain := r.ends - now_us;
      IF r.owner <> '*' THEN
        o_holder := r.holder;
      END IF;
      EXIT;
    END IF;
  END LOOP;
  FOR i IN 1 .. CASE WHEN a_prefix OR o_held = cardinality(a_key) THEN o_held ELSE 0 END LOOP
    UPDATE {T} AS l SET owner = a_owner[i], ends = {NOW} + a_ttl, holder = a_holder[i], chan = a_chan,
        token = CASE WHEN a_fence THEN greatest(l.token + 64, {NOW}) ELSE l.token END
      WHERE l.key = a_key[i] RETURNING l.token INTO last;
    o_tokens := o_tokens || last;
  END LOOP;
  IF o_tokens <> '{}' AND current_setting('synchronous_commit') = 'off' THEN -- who has a key may not be lost
    PERFORM set_config('synchronous_commit', 'on', true);
  END IF;
END $f$;
