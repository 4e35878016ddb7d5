-- look.lua tells who holds a key, and queues a claim that will wait for it.
--
-- KEYS[1]  lock
-- KEYS[2]  wait queue: sorted set of entry -> place; see entry.go
-- ARGV[1]  owner id
-- ARGV[2]  the claim's entry, or "" if it will not wait
-- ARGV[3]  "1" if it was queued before: if it is not there any more it was granted, and must not come back (law 2)
-- ARGV[4]  its place, or "0" for the back of the queue: then it is the time in µs by the server's clock
-- ARGV[5]  how long the queue lasts without a look, in ms
-- ARGV[6]  what an inbox's channel starts with, before the instance id
-- ARGV[7]  message for the holder's inbox, if the claim is new in the queue
--
-- Returns nil if the key is free or the claim's own: it is out of the queue then. Else {remaining TTL in ms or -1 for none,
-- the start of the holder's value, the claim's place or "" if it is not in the queue}.

local ttl = redis.call("pttl", KEYS[1])
local value = redis.call("getrange", KEYS[1], 0, 2047)
if ttl == -2 or string.sub(value, 1, #ARGV[1]) == ARGV[1] then
  if ARGV[2] ~= "" then
    redis.call("zrem", KEYS[2], ARGV[2])
  end
  return false
end

local place = ""
if ARGV[2] ~= "" then
  local score = redis.call("zscore", KEYS[2], ARGV[2])
  if score then
    place = string.format("%.0f", tonumber(score))
  elseif ARGV[3] ~= "1" then
    place = ARGV[4]
    if place == "0" then
      local time = redis.call("time")
      place = string.format("%.0f", tonumber(time[1]) * 1000000 + tonumber(time[2]))
    end
    redis.call("zadd", KEYS[2], place, ARGV[2])
    redis.pcall("publish", ARGV[6] .. string.sub(value, 23, 44), ARGV[7])
  end
  redis.call("pexpire", KEYS[2], ARGV[5])
end
return {ttl, value, place}
