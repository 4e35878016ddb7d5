-- Several owners of a key, and claims that may be one of several: laws 13 to 15 of package locker.
--
-- While several own a key, or one that others may join, its owner is '*'. holder is then a JSON array of their shares: o owner id,
-- e when the share ends (µs), n limit, t first token of its block, c channel, h holder. ends is the end of the last share. So the
-- key is free when all shares have ended, and '*' is one owner more for whatever only compares owner ids.
--
-- In the queue such a claim has its limit in n. The other functions leave that entry to this file, see "alone" in schema.sql.

-- shares returns the shares of a row that have not ended. A claim that owns the key alone is a share with the limit 1.
CREATE OR REPLACE FUNCTION {S}(r {T}, now_us bigint) RETURNS jsonb LANGUAGE sql STABLE AS $f$
  SELECT CASE
    WHEN r.owner = '' OR r.ends <= now_us THEN '[]'
    WHEN r.owner <> '*' THEN jsonb_build_array(
      jsonb_build_object('o', r.owner, 'e', r.ends, 'n', 1, 't', r.token, 'c', r.chan, 'h', r.holder))
    ELSE (SELECT coalesce(jsonb_agg(e.v ORDER BY e.n), '[]')
      FROM jsonb_array_elements(r.holder::jsonb) WITH ORDINALITY AS e(v, n) WHERE (e.v ->> 'e')::bigint > now_us)
    END
$f$;

-- put writes the shares of a key, its queue and its last token.
CREATE OR REPLACE FUNCTION {P}(k bytea, s jsonb, q jsonb, last bigint) RETURNS void LANGUAGE sql AS $f$
  UPDATE {T} AS l SET queue = q, token = last,
      ends = coalesce((SELECT max((e ->> 'e')::bigint) FROM jsonb_array_elements(s) AS e), {NOW}),
      owner = CASE WHEN s = '[]' THEN '' WHEN s -> 0 ->> 'n' = '1' THEN s -> 0 ->> 'o' ELSE '*' END,
      holder = CASE WHEN s = '[]' THEN '' WHEN s -> 0 ->> 'n' = '1' THEN s -> 0 ->> 'h' ELSE s::text END,
      chan = CASE WHEN s -> 0 ->> 'n' = '1' THEN s -> 0 ->> 'c' ELSE '' END
    WHERE l.key = k
$f$;

-- insert puts an entry into a queue, behind all whose place is not higher, or in place of its own.
CREATE OR REPLACE FUNCTION {I}(q jsonb, w jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $f$
  SELECT jsonb_agg(e.v ORDER BY (e.v ->> 'p')::bigint, e.n) FROM (
    SELECT CASE WHEN x.v ->> 'o' = w ->> 'o' THEN w ELSE x.v END, x.n FROM jsonb_array_elements(q) WITH ORDINALITY AS x(v, n)
    UNION ALL
    SELECT w, {NO_LIMIT} WHERE NOT EXISTS (SELECT FROM jsonb_array_elements(q) AS x WHERE x ->> 'o' = w ->> 'o')
  ) AS e(v, n)
$f$;

-- One call of the batch in schema.sql, with the same arguments and results, about a key that several own or may own.
-- a_limit is the limit of the claim that may be queued, as offers and holder are.
-- o_chans and o_texts are messages, for the caller to send once this is committed.
CREATE OR REPLACE FUNCTION {C}(
  a_op text, k bytea, o text, a_next text, a_ttl bigint, a_short bigint, a_long bigint, a_fence boolean,
  a_holder text, a_chan text, a_place bigint, flags int, a_limit bigint,
  OUT o_durable boolean, OUT o_ok boolean, OUT o_token bigint, OUT o_holder text, OUT o_remain bigint,
  OUT o_queued boolean, OUT o_place bigint, OUT o_waiting int, OUT o_handed boolean, OUT o_chans text[], OUT o_texts text[])
LANGUAGE plpgsql AS $f$
DECLARE
  me text := ltrim(a_chan, '-');
  r {T}%ROWTYPE;
  now_us bigint; last bigint; back bigint := 0; offer bigint; since bigint;
  s jsonb; before jsonb; q jsonb := '[]'; ahead jsonb; v jsonb; own jsonb; w jsonb; got jsonb := '[]';
  m int; low bigint; -- how many own the key, and the lowest of their limits
  shut boolean := false; behind boolean := false;
BEGIN
  o_durable := false; o_ok := false; o_token := 0; o_holder := ''; o_remain := 0; o_queued := false; o_place := 0;
  o_waiting := 0; o_handed := false; o_chans := '{}'; o_texts := '{}';
  LOOP
    SELECT * INTO r FROM {T} AS l WHERE l.key = k FOR UPDATE;
    EXIT WHEN FOUND;
    IF a_op <> 'a' THEN
      RETURN;
    END IF;
    INSERT INTO {T} (key) VALUES (k) ON CONFLICT DO NOTHING;
  END LOOP;
  now_us := {NOW};
  before := {S}(r, now_us); s := before; last := r.token;
  SELECT e INTO own FROM jsonb_array_elements(s) AS e WHERE e ->> 'o' = o;
  FOR v IN SELECT e FROM jsonb_array_elements(r.queue) AS e LOOP
    back := (v ->> 'p')::bigint;
    CONTINUE WHEN (v ->> 's')::bigint <= now_us - {LIFE} OR a_op = 'r' AND v ->> 'o' = o AND flags & 1 = 0;
    q := q || v;
  END LOOP;
  w := jsonb_build_object('s', now_us, 'f', a_short, 'l', a_long, 'x', a_fence, 'c', a_chan, 'h', a_holder)
    || CASE WHEN a_limit > 1 THEN jsonb_build_object('n', a_limit) ELSE '{}' END
    || CASE WHEN a_op = 'a' AND flags & 8 <> 0 THEN '{"y": true}' ELSE '{}' END::jsonb;

  IF a_op = 'f' THEN
    IF own IS NOT NULL THEN
      o_ok := true; o_durable := true; o_token := greatest(last + 64, now_us);
      PERFORM {P}(k, s, r.queue, o_token);
    END IF;
    RETURN;
  ELSIF a_op = 'r' THEN
    o_ok := own IS NOT NULL;
    s := {W}(s, o);
    o_waiting := jsonb_array_length(q);
    IF o_ok AND flags & 1 <> 0 THEN
      o_chans := o_chans || (own ->> 'c'); o_texts := o_texts || concat_ws(' ', 'r', encode(k, 'hex'), o);
    END IF;
    IF o_ok AND a_next <> '' AND (q <> '[]' OR s <> '[]') THEN
      o_queued := true; o_place := greatest(now_us, back + 1);
      q := q || (w || jsonb_build_object('o', a_next, 'p', o_place));
    END IF;
  END IF;

  -- Serve those in front that may own the key, one after the other. A free key is anybody's (law 8), if it was not released.
  SELECT count(*), coalesce(min((e ->> 'n')::bigint), {NO_LIMIT}) INTO m, low FROM jsonb_array_elements(s) AS e;
  IF a_op = 'r' OR m > 0 THEN
    ahead := q; q := '[]';
    FOR v IN SELECT e FROM jsonb_array_elements(ahead) AS e LOOP
      shut := shut OR m > 0 AND m >= least(low, coalesce((v ->> 'n')::bigint, 1));
      IF shut THEN
        q := q || v;
        CONTINUE;
      END IF;
      IF left(v ->> 'c', 1) <> '-' AND v ->> 'c' <> me AND {G}(v ->> 'c') THEN -- law 7, as in schema.sql
        o_waiting := o_waiting - 1;
        CONTINUE;
      END IF;
      offer := (v ->> CASE WHEN left(v ->> 'c', 1) <> '-' OR ltrim(v ->> 'c', '-') = me THEN 'l' ELSE 'f' END)::bigint;
      IF (v ->> 'x')::boolean THEN
        last := greatest(last + 64, now_us);
      END IF;
      since := least(greatest(now_us, (v ->> 's')::bigint + {TOUCH}), now_us + {TOUCH}); -- as in schema.sql
      v := jsonb_build_object('o', v ->> 'o', 'e', since + offer, 'n', coalesce((v ->> 'n')::bigint, 1),
        't', CASE WHEN (v ->> 'x')::boolean THEN last ELSE 0 END, 'c', v ->> 'c', 'h', v ->> 'h');
      s := s || v; got := got || (v || jsonb_build_object('offer', offer));
      m := m + 1; low := least(low, (v ->> 'n')::bigint); o_durable := true;
    END LOOP;
  END IF;

  IF a_op = 'r' THEN
    o_handed := m > 0;
  ELSE
    SELECT e INTO own FROM jsonb_array_elements(s) AS e WHERE e ->> 'o' = o;
    FOR v IN SELECT e FROM jsonb_array_elements(q) AS e LOOP
      EXIT WHEN v ->> 'o' = o OR a_place <> 0 AND a_place < (v ->> 'p')::bigint;
      behind := behind OR (v ->> 's')::bigint > now_us - {SEEN}; -- law 14
    END LOOP;
    IF own IS NOT NULL OR m = 0 OR m < least(low, a_limit) AND NOT behind THEN
      IF a_fence THEN
        last := greatest(last + 64, now_us); o_token := last;
      END IF;
      s := {W}(s, o) || jsonb_build_object('o', o, 'e', now_us + a_ttl, 'n', a_limit, 't', o_token, 'c', a_chan, 'h', a_holder);
      q := {W}(q, o); o_ok := true; o_durable := true;
    ELSE
      o_remain := (SELECT max((e ->> 'e')::bigint) FROM jsonb_array_elements(s) AS e) - now_us;
      IF low = 1 THEN
        o_holder := s -> 0 ->> 'h';
      END IF;
      SELECT e INTO v FROM jsonb_array_elements(q) AS e WHERE e ->> 'o' = o;
      IF v IS NOT NULL OR flags & 1 <> 0 AND flags & 4 = 0 THEN -- else it only looks, or law 2
        o_queued := true; o_place := coalesce((v ->> 'p')::bigint, nullif(a_place, 0), greatest(now_us, back + 1));
        IF v IS NULL OR (v ->> 's')::bigint <= now_us - {TOUCH} OR v ->> 'c' <> a_chan THEN
          q := {I}(q, coalesce(v, w) || jsonb_build_object('o', o, 'p', o_place, 's', now_us, 'c', a_chan));
        END IF;
      END IF;
      IF v IS NULL AND o_queued THEN
        SELECT coalesce(array_agg(DISTINCT e ->> 'c'), '{}') INTO o_chans
          FROM jsonb_array_elements(s) AS e WHERE ltrim(e ->> 'c', '-') <> me;
        o_texts := array_fill('w ' || encode(k, 'hex'), ARRAY[cardinality(o_chans)]);
      END IF;
    END IF;
  END IF;

  FOR v IN SELECT e FROM jsonb_array_elements(got) AS e LOOP
    CONTINUE WHEN a_op = 'a' AND v ->> 'o' = o; -- the answer tells it
    o_chans := o_chans || (v ->> 'c');
    o_texts := o_texts || concat_ws(' ', 'g', encode(k, 'hex'), v ->> 'o', v ->> 't', jsonb_array_length(q), v ->> 'offer');
  END LOOP;
  IF s <> before OR q <> r.queue THEN
    PERFORM {P}(k, s, q, last);
  END IF;
END $f$;

-- stay gives claims that share their keys the full TTL again, and returns those that own them, and whether others wait there.
-- A share that has ended is not put back (law 1). The keys are sorted, as in a batch of calls. With a_free, rows that are locked
-- are left out.
CREATE OR REPLACE FUNCTION {K}(a_key bytea[], a_owner text[], a_ttl bigint[], a_chan text, a_free boolean)
RETURNS TABLE (o_owner text, o_waits boolean)
LANGUAGE plpgsql AS $f$
DECLARE
  r {T}%ROWTYPE;
  now_us bigint; s jsonb; own jsonb;
BEGIN
  IF current_setting('synchronous_commit') = 'off' THEN
    PERFORM set_config('synchronous_commit', 'on', true);
  END IF;
  FOR i IN 1 .. cardinality(a_key) LOOP
    IF a_free THEN
      SELECT * INTO r FROM {T} AS l WHERE l.key = a_key[i] FOR UPDATE SKIP LOCKED;
    ELSE
      SELECT * INTO r FROM {T} AS l WHERE l.key = a_key[i] FOR UPDATE;
    END IF;
    CONTINUE WHEN NOT FOUND;
    now_us := {NOW}; o_owner := a_owner[i]; o_waits := r.queue <> '[]';
    s := {S}(r, now_us);
    SELECT e INTO own FROM jsonb_array_elements(s) AS e WHERE e ->> 'o' = o_owner;
    CONTINUE WHEN own IS NULL;
    s := {W}(s, o_owner) || (own || jsonb_build_object('e', now_us + a_ttl[i], 'c', a_chan));
    PERFORM {P}(a_key[i], s, r.queue, r.token);
    RETURN NEXT;
  END LOOP;
END $f$;
