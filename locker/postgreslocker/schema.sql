-- Sessions that make the tables at once wait for one another.
SELECT pg_advisory_xact_lock({SEED}, 0);

-- One row for each key, and one for each long result. Times are µs since 1970 by this server's clock.
-- Rows stay after a release, for their tokens and for HOT updates, and are swept when nobody has used them for a while.
CREATE TABLE IF NOT EXISTS {T} (
  k       bytea  PRIMARY KEY,
  version bigint NOT NULL,              -- grows with each write, also across a deletion
  written bigint NOT NULL,              -- when
  ends    bigint NOT NULL,              -- when the row means nothing any more
  value   bytea  NOT NULL,              -- owner id, '/' and JSON, see package rowlocker
  unaware text   NOT NULL,              -- the process that owns the key and does not know yet that others wait
  tickets text[] NOT NULL DEFAULT '{}'  -- claims that have joined the queue since, or share the key: VERSION/NAME/BASE64
) WITH (fillfactor = 50);

-- One row for each process with claims that wait.
CREATE TABLE IF NOT EXISTS {P} (
  instance text    PRIMARY KEY,
  ends     bigint  NOT NULL,            -- until when it is alive, unless it says so again
  hears    boolean NOT NULL             -- its session that listens has a lock: without that it is gone
) WITH (fillfactor = 50);
