-- look.lua finds the holder of a key, and queues a claim that will wait for it.
-- The claim wants to own the key alone. If a crowd owns it, lookcrowd.lua goes
-- on.
--
-- Returns nil if the key is free or the claim's own. The claim is out of the
-- queue then. Otherwise returns {remaining TTL in ms or -1 for none, the start
-- of the holder's value, the claim's place or "" if it is not in the queue}.
-- The claim is not queued behind an entry of a newer version. In that case the
-- place is nil, and the rest says nothing.

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

  local place, tell = line_up(value)
  if not place then
    return {ttl, value}
  end
  if tell then
    redis.pcall("publish", ARGV[6] .. string.sub(value, 23, 44), ARGV[7])
  end
  return {ttl, value, place}
end
