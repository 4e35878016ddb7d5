-- unmark.lua stands in front of release.lua. It removes the mark of an owner
-- under whom nothing was done, whether or not it still owns the key (law 20).
--
-- KEYS[1] to KEYS[5] and ARGV[1] are those of release.lua. ARGV[2] to ARGV[6]
-- are its OWN, NEXT, INBOXES, KNOWN ("1" or "0") and KEY.
-- KEYS[6]  record

if redis.call("getrange", KEYS[6], 0, #ARGV[1]) == "*" .. ARGV[1] then
  redis.call("del", KEYS[6])
end
