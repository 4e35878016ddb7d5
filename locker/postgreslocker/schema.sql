-- {T}: one row for each key; who waits for it is in the row, so that a row lock guards both.
-- Rows stay after a release, for the token and for HOT updates, and are swept when nobody has used them for a while.
CREATE TABLE IF NOT EXISTS {T} (
  key    bytea  PRIMARY KEY,
  owner  text   NOT NULL DEFAULT '',    -- owner id; '' is nobody
  ends   bigint NOT NULL DEFAULT 0,     -- until when the owner has the key: µs since 1970 by this server's clock
  token  bigint NOT NULL DEFAULT 0,     -- first of the last block of 64 fencing tokens
  holder text   NOT NULL DEFAULT '',    -- JSON, who the owner is
  chan   text   NOT NULL DEFAULT '',    -- channel of the owner's process; '-' in front: it does not listen
  queue  jsonb  NOT NULL DEFAULT '[]'   -- in order: o owner, p place, s last seen (µs), f short offer, l long offer (µs), x fencing, c channel, h holder, y recalls
) WITH (fillfactor = 50);

-- One statement for a batch of calls, sorted by key by the client, so that two batches lock rows in one order.
-- op: a acquire; r release (of a_owner, with a_next queued if the key is handed over) or abandon; f fence.
-- k is a release with a record, b and d are about records only, see record.sql.
-- flags: a: 1 wait, 2 somebody else is likely to own it, 4 was queued before, 8 recalls.
-- r: 1 tell the owner (force release), 2 remove its mark.
-- The caller tells who got the key: NOTIFY holds a lock of the whole server until its transaction is flushed to disk.
-- a_ttl is the owner's, or that of the record a_value; offers, fence, holder, chan, place and limit are those of the claim that may be queued.
CREATE OR REPLACE FUNCTION {F}(
  a_op text[], a_key bytea[], a_owner text[], a_next text[], a_ttl bigint[], a_short bigint[], a_long bigint[], a_fence boolean[],
  a_holder text[], a_chan text[], a_place bigint[], a_flags int[], a_limit bigint[], a_value bytea[])
RETURNS TABLE (
  o_ok boolean,                         -- acquired, released, fenced
  o_token bigint,                       -- first of the block of the claim that has the key now
  o_holder text, o_remain bigint,       -- a: who else has it, and for how long
  o_queued boolean, o_place bigint,     -- a: the claim is in the queue; r: next is
  o_waiting int, o_behind int,          -- r: how many waited; how many wait behind the one who got it
  o_handed boolean, o_owner text,       -- r: it went to somebody; and to whom, if the caller is to tell
  o_offer bigint,                       -- r: for how long it has the key
  o_chan text,                          -- r: where; '' if that is a claim of the caller's own process
  o_chans text[], o_texts text[],       -- messages about several owners or a record, and where; '-' in front: it does not listen
  o_kept boolean, o_record bytea)       -- k, b, d: see record.sql; a, b: the record
LANGUAGE plpgsql AS $f$
#variable_conflict use_column
DECLARE
  durable boolean := false;
  r {T}%ROWTYPE;
  w jsonb; q jsonb; v jsonb;
  k bytea; o text; flags int; me text;
  now_us bigint; p bigint; since bigint; at int; mine boolean; locked boolean; granted boolean; done boolean;
  chans text[]; texts text[];            -- of a record
BEGIN
  FOR i IN 1 .. cardinality(a_key) LOOP
    k := a_key[i]; o := a_owner[i]; flags := a_flags[i]; me := ltrim(a_chan[i], '-');
    o_ok := false; o_token := 0; o_holder := ''; o_remain := 0; o_queued := false; o_place := 0;
    o_waiting := 0; o_behind := 0; o_handed := false; o_owner := ''; o_offer := 0; o_chan := '';
    o_chans := NULL; o_texts := NULL; o_kept := false; o_record := NULL; chans := NULL; texts := NULL;

    IF a_op[i] IN ('k', 'b', 'd') OR a_op[i] = 'a' AND flags & 8 <> 0 OR a_op[i] = 'r' AND flags & 2 <> 0 THEN
      SELECT b.* INTO done, granted, o_kept, o_record, chans, texts FROM {B}(a_op[i], k, o, a_ttl[i], flags, a_value[i]) AS b;
      durable := durable OR granted; o_chans := chans; o_texts := texts;
      IF done THEN
        RETURN NEXT; CONTINUE;
      END IF;
    END IF;

    <<alone>> -- left for crowd.sql if several claims own the key, or may
    BEGIN
    EXIT alone WHEN a_limit[i] > 1;
    IF a_op[i] = 'a' THEN
      IF flags & 2 = 0 THEN -- likely to be free
        UPDATE {T} AS l SET owner = o, ends = {NOW} + a_ttl[i], holder = a_holder[i], chan = a_chan[i],
            token = CASE WHEN a_fence[i] THEN greatest(l.token + 64, {NOW}) ELSE l.token END,
            queue = CASE WHEN l.queue = '[]' THEN l.queue ELSE {W}(l.queue, o) END
          WHERE l.key = k AND (l.owner = o OR l.owner = '' OR l.ends <= {NOW})
          RETURNING l.token INTO o_token;
        IF FOUND THEN
          o_ok := true; durable := true;
          RETURN NEXT; CONTINUE;
        END IF;
        o_token := 0; -- INTO has made it null
      END IF;
      locked := false;
      LOOP -- look; then, if there is something to write, lock and look again
        IF locked THEN
          SELECT * INTO r FROM {T} AS l WHERE l.key = k FOR UPDATE;
        ELSE
          SELECT * INTO r FROM {T} AS l WHERE l.key = k;
        END IF;
        now_us := {NOW};
        IF NOT FOUND THEN
          INSERT INTO {T} AS l (key, owner, ends, token, holder, chan)
            VALUES (k, o, now_us + a_ttl[i], CASE WHEN a_fence[i] THEN now_us ELSE 0 END, a_holder[i], a_chan[i])
            ON CONFLICT DO NOTHING RETURNING l.token INTO o_token;
          IF FOUND THEN
            o_ok := true; durable := true;
            EXIT;
          END IF;
          locked := false; o_token := 0;
          CONTINUE; -- somebody was first
        END IF;
        IF r.owner = '' OR r.owner = o OR r.ends <= now_us THEN
          IF locked THEN
            UPDATE {T} AS l SET owner = o, ends = now_us + a_ttl[i], holder = a_holder[i], chan = a_chan[i],
                token = CASE WHEN a_fence[i] THEN greatest(l.token + 64, now_us) ELSE l.token END,
                queue = CASE WHEN l.queue = '[]' THEN l.queue ELSE {W}(l.queue, o) END
              WHERE l.key = k RETURNING l.token INTO o_token;
            o_ok := true; durable := true;
            EXIT;
          END IF;
          locked := true;
          CONTINUE;
        END IF;
        EXIT alone WHEN r.owner = '*';
        o_holder := r.holder; o_remain := r.ends - now_us;
        w := NULL;
        FOR j IN 0 .. jsonb_array_length(r.queue) - 1 LOOP
          v := r.queue -> j;
          IF v ->> 'o' = o AND (v ->> 's')::bigint > now_us - {LIFE} THEN -- else too late: dropped by who writes next
            w := v; at := j;
            EXIT;
          END IF;
        END LOOP;
        IF w IS NULL THEN
          EXIT WHEN flags & 1 = 0 OR flags & 4 <> 0; -- only looks; or law 2
        ELSIF (w ->> 's')::bigint > now_us - {TOUCH} AND w ->> 'c' = a_chan[i] THEN
          o_queued := true; o_place := (w ->> 'p')::bigint; -- seen a moment ago: not worth a write
          EXIT;
        END IF;
        IF NOT locked THEN
          locked := true;
          CONTINUE;
        END IF;
        o_queued := true;
        IF w IS NOT NULL THEN
          o_place := (w ->> 'p')::bigint;
          UPDATE {T} AS l SET queue = jsonb_set(l.queue, ARRAY[at::text], w || jsonb_build_object('s', now_us, 'c', a_chan[i]))
            WHERE l.key = k;
          EXIT;
        END IF;
        o_place := a_place[i];
        IF o_place = 0 THEN
          o_place := greatest(now_us, coalesce((r.queue -> -1 ->> 'p')::bigint, 0) + 1);
        END IF;
        w := jsonb_build_object('o', o, 'p', o_place, 's', now_us, 'f', a_short[i], 'l', a_long[i], 'x', a_fence[i], 'c', a_chan[i], 'h', a_holder[i])
          || CASE WHEN flags & 8 <> 0 THEN '{"y": true}' ELSE '{}' END::jsonb;
        q := '[]';
        FOR j IN 0 .. jsonb_array_length(r.queue) - 1 LOOP
          v := r.queue -> j;
          CONTINUE WHEN (v ->> 's')::bigint <= now_us - {LIFE} OR v ->> 'o' = o;
          IF w IS NOT NULL AND (v ->> 'p')::bigint > o_place THEN
            q := q || w; w := NULL;
          END IF;
          q := q || v;
        END LOOP;
        IF w IS NOT NULL THEN
          q := q || w;
        END IF;
        UPDATE {T} AS l SET queue = q WHERE l.key = k;
        IF left(r.chan, 1) <> '-' AND r.chan <> '' THEN
          PERFORM pg_notify(r.chan, 'w ' || encode(k, 'hex'));
        END IF;
        EXIT;
      END LOOP;
      RETURN NEXT; CONTINUE;
    END IF;

    IF a_op[i] = 'f' THEN
      UPDATE {T} AS l SET token = greatest(l.token + 64, {NOW})
        WHERE l.key = k AND l.owner = o AND l.ends > {NOW} RETURNING l.token INTO o_token;
      o_ok := FOUND; durable := durable OR FOUND; o_token := coalesce(o_token, 0);
      RETURN NEXT; CONTINUE;
    END IF;

    -- release
    IF flags & 1 = 0 THEN -- mostly nobody waits
      UPDATE {T} AS l SET owner = '', ends = {NOW}, holder = '', chan = ''
        WHERE l.key = k AND l.owner = o AND l.ends > {NOW} AND l.queue = '[]';
      IF FOUND THEN
        o_ok := true;
        RETURN NEXT; CONTINUE;
      END IF;
    END IF;
    SELECT * INTO r FROM {T} AS l WHERE l.key = k FOR UPDATE;
    IF NOT FOUND THEN
      RETURN NEXT; CONTINUE;
    END IF;
    EXIT alone WHEN r.owner = '*';
    now_us := {NOW};
    mine := r.owner = o AND r.ends > now_us;
    q := '[]'; w := NULL; p := 0;
    FOR j IN 0 .. jsonb_array_length(r.queue) - 1 LOOP
      v := r.queue -> j;
      p := (v ->> 'p')::bigint;
      CONTINUE WHEN (v ->> 's')::bigint <= now_us - {LIFE} OR v ->> 'o' = o AND flags & 1 = 0;
      IF w IS NULL AND (mine OR r.owner = '' OR r.ends <= now_us) THEN
        EXIT alone WHEN v ? 'n';
        -- Law 7: who was sure to hear and does not listen any more is passed over: its listener holds a lock on its channel.
        CONTINUE WHEN left(v ->> 'c', 1) <> '-' AND v ->> 'c' <> me AND {G}(v ->> 'c');
        o_waiting := o_waiting + 1;
        -- Its process is this one, or its session was there just now: it hears.
        o_offer := CASE WHEN left(v ->> 'c', 1) <> '-' OR ltrim(v ->> 'c', '-') = me
          THEN (v ->> 'l')::bigint ELSE (v ->> 'f')::bigint END;
        -- Until this is committed, a look that is not written may see it wait. The offer lasts from that look on (law 1).
        since := least(greatest(now_us, (v ->> 's')::bigint + {TOUCH}), now_us + {TOUCH});
        w := v;
      ELSE
        o_waiting := o_waiting + 1;
        q := q || v;
      END IF;
    END LOOP;
    o_ok := mine;
    IF w IS NULL THEN -- nobody to hand it to, or it is another's
      IF mine OR (r.owner <> '' AND r.ends <= now_us) THEN
        UPDATE {T} AS l SET owner = '', ends = now_us, holder = '', chan = '', queue = q WHERE l.key = k;
      ELSIF q <> r.queue THEN
        UPDATE {T} AS l SET queue = q WHERE l.key = k;
      END IF;
    ELSE
      IF mine AND a_next[i] <> '' THEN
        o_queued := true; o_place := greatest(now_us, p + 1);
        q := q || jsonb_build_object('o', a_next[i], 'p', o_place, 's', now_us, 'f', a_short[i], 'l', a_long[i], 'x', a_fence[i], 'c', a_chan[i], 'h', a_holder[i]);
      END IF;
      UPDATE {T} AS l SET owner = w ->> 'o', ends = since + o_offer, holder = w ->> 'h', chan = w ->> 'c', queue = q,
          token = CASE WHEN (w ->> 'x')::boolean THEN greatest(l.token + 64, now_us) ELSE l.token END
        WHERE l.key = k RETURNING CASE WHEN (w ->> 'x')::boolean THEN l.token ELSE 0 END INTO o_token;
      durable := true; o_handed := true; o_behind := jsonb_array_length(q);
      IF ltrim(w ->> 'c', '-') = me THEN
        o_owner := w ->> 'o';
      ELSIF left(w ->> 'c', 1) = '-' THEN
        NULL; -- it will look
      ELSE
        o_owner := w ->> 'o'; o_chan := w ->> 'c';
      END IF;
    END IF;
    IF mine AND flags & 1 <> 0 AND left(r.chan, 1) <> '-' THEN
      PERFORM pg_notify(r.chan, concat_ws(' ', 'r', encode(k, 'hex'), r.owner));
    END IF;
    RETURN NEXT; CONTINUE;
    END alone;

    SELECT c.* INTO granted, o_ok, o_token, o_holder, o_remain, o_queued, o_place, o_waiting, o_handed, o_chans, o_texts
      FROM {C}(CASE a_op[i] WHEN 'k' THEN 'r' ELSE a_op[i] END, k, o, a_next[i], a_ttl[i], a_short[i], a_long[i], a_fence[i], a_holder[i], a_chan[i], a_place[i],
        flags, a_limit[i]) AS c;
    durable := durable OR granted; o_behind := 0; o_owner := ''; o_offer := 0;
    o_chans := chans || o_chans; o_texts := texts || o_texts;
    RETURN NEXT;
  END LOOP;
  IF NOT durable THEN -- a place in a queue, or that a key is free, may be lost in a crash
    PERFORM set_config('synchronous_commit', 'off', true);
  ELSIF current_setting('synchronous_commit') = 'off' THEN -- who has a key may not
    PERFORM set_config('synchronous_commit', 'on', true);
  END IF;
END $f$;

CREATE OR REPLACE FUNCTION {W}(q jsonb, o text) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $f$
  SELECT coalesce(jsonb_agg(e.v ORDER BY e.n), '[]') FROM jsonb_array_elements(q) WITH ORDINALITY AS e(v, n) WHERE e.v ->> 'o' <> o
$f$;

-- gone reports whether nobody listens to a channel. It gives the lock back at once: another transaction that asks for the same
-- channel must not take this one for a listener while it waits for the disk.
CREATE OR REPLACE FUNCTION {G}(channel text) RETURNS boolean LANGUAGE sql VOLATILE AS $f$
  SELECT CASE WHEN pg_try_advisory_lock(k) THEN pg_advisory_unlock(k) ELSE false END FROM hashtextextended(channel, {SEED}) AS k
$f$;
