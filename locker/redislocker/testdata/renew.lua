-- renew.lua gives a key its full TTL again, if the owner still owns it. The
-- script never creates a key.
--
-- KEYS[1]  lock
-- ARGV[1]  owner id
-- ARGV[2]  TTL in ms
--
-- Returns 1, or 0 if the owner does not own the key.


if redis.call("getrange", KEYS[1], 0, #ARGV[1] - 1) ~= ARGV[1] then
  return 0
end
return redis.call("pexpire", KEYS[1], ARGV[2])
