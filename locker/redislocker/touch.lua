-- touch.lua writes a key as it is, if the owner owns it, so that WAIT has
-- something to wait for on this connection.
--
-- KEYS[1]  lock
-- KEYS[2]  members of a crowd, see crowd.lua
-- ARGV[1]  owner id
--
-- Returns 1, or 0 if the owner does not own the key.

local value = redis.call("getrange", KEYS[1], 0, #ARGV[1] - 1)
if value ~= ARGV[1] and (value ~= CROWD or not select(2, share(ARGV[1], ""))) then
  return 0
end
return redis.call("pexpire", KEYS[1], redis.call("pttl", KEYS[1]))
