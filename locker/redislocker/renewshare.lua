-- renewshare.lua gives a claim with a limit its full TTL again, if its share of
-- the key has not ended. The script never creates a key, and never puts back a
-- share.
--
-- KEYS[1]  lock
-- KEYS[2]  members of a crowd, see crowd.lua
-- ARGV[1]  owner id
-- ARGV[2]  its entry, or "" if that is not known
-- ARGV[3]  TTL in ms
--
-- Returns 1, or 0 if the claim does not own the key.

if redis.call("getrange", KEYS[1], 0, #CROWD - 1) ~= CROWD then
  return 0
end
local entry, live = share(ARGV[1], ARGV[2])
if not live then
  return 0
end
crowd.add(entry, ARGV[3])
crowd.settle()
return 1
