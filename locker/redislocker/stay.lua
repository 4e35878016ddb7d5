-- stay.lua gives a claim with a limit its full TTL again, if its share of the key
-- has not ended. It never creates a key, and never puts back a share.
--
-- KEYS[1]  lock
-- KEYS[2]  crowd, see crowd.lua
-- ARGV[1]  owner id
-- ARGV[2]  its entry, or "" if that is not known
-- ARGV[3]  TTL in ms
--
-- Returns 1, or 0 if the claim does not own the key.

if redis.call("getrange", LOCK, 0, #CROWD - 1) ~= CROWD then
  return 0
end
local entry, live = share(ARGV[1], ARGV[2])
if not live then
  return 0
end
redis.call("zadd", MEMBERS, clock() + ARGV[3], entry)
settle()
return 1
