-- look.lua finds the holder of a key, and queues a claim that will wait for it.
-- The claim wants to own the key alone. If a crowd owns it, lookcrowd.lua goes on.
--
-- KEYS[1]  lock
-- KEYS[2]  wait queue: sorted set of entry -> place, see entry.go
-- KEYS[3]  dues: sorted set of owner id -> when its claim must be seen again,
--          in ms by the server's clock
-- KEYS[4]  last fencing token given
-- KEYS[5]  crowd, see crowd.lua
-- ARGV[1]  owner id
-- ARGV[2]  the claim's entry, or "" if it will not wait
-- ARGV[3]  "1" if it was queued before. If it is not there any more it was
--          granted, and must not come back (law 2)
-- ARGV[4]  its place, or "0" for the back of the queue
-- ARGV[5]  max ms until the next look at it: LOOK_EVERY, or the rest that it is
--          granted
-- ARGV[6]  start of the channel of an inbox, before the instance id
-- ARGV[7]  message for the holder's inbox, if the claim is new in the queue
-- ARGV[8]  "1" if the server knows who hears a message, see release.lua
--
-- Returns nil if the key is free or the claim's own. The claim is out of the
-- queue then. Otherwise returns {remaining TTL in ms or -1 for none, the start
-- of the holder's value, the claim's place or "" if it is not in the queue}.
-- The claim is not queued behind an entry of a newer version, and the place is
-- nil then.

local ttl = redis.call("pttl", KEYS[1])
local value = redis.call("getrange", KEYS[1], 0, 2047)
if string.sub(value, 1, #CROWD) ~= CROWD then
  if ttl == -2 or string.sub(value, 1, #ARGV[1]) == ARGV[1] then
    if ARGV[2] ~= "" then
      redis.call("zrem", KEYS[2], ARGV[2])
      redis.call("zrem", KEYS[3], ARGV[1])
    end
    return false
  end
  if ARGV[2] == "" then
    return {ttl, value, ""}
  end

  local place, new = line_up()
  if not place then
    return {ttl, value}
  end
  if new then
    redis.pcall("publish", INBOXES .. string.sub(value, 23, 44), ARGV[7])
  end
  return {ttl, value, place}
end
