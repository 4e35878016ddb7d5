-- queue.lua tells who holds a key, and queues an instance that will wait for it.
--
-- KEYS[1]  lock
-- KEYS[2]  wait queue: sorted set of instance id -> place, the time in µs by the server's clock when it first queued
-- ARGV[1]  instance id
-- ARGV[2]  "1" if the instance will wait, else "0"
-- ARGV[3]  "1" if it queues even if the key is free, to leave it to the one that was just woken, else "0"
-- ARGV[4]  its place before it was woken, or "" for the back of the queue
-- ARGV[5]  how long the queue lasts without a look, in ms
-- ARGV[6]  what an inbox's channel starts with, before the instance id
-- ARGV[7]  message for the holder's inbox, if this instance was not in the queue
--
-- Returns nil if the key is free, else {its remaining TTL in ms or -1 for none, the start of its value, the instance's
-- place in the queue or ""}.

local ttl = redis.call("pttl", KEYS[1])
if ttl == -2 and ARGV[3] ~= "1" then
  return false
end
local value = redis.call("getrange", KEYS[1], 0, 2047)

local place = ""
if ARGV[2] == "1" then
  place = ARGV[4]
  if place == "" then
    local time = redis.call("time")
    place = string.format("%.0f", tonumber(time[1]) * 1000000 + tonumber(time[2]))
  end
  local added = redis.call("zadd", KEYS[2], "nx", place, ARGV[1])
  redis.call("pexpire", KEYS[2], ARGV[5])
  if added == 1 then
    redis.pcall("publish", ARGV[6] .. string.sub(value, 23, 44), ARGV[7])
  else
    place = string.format("%.0f", tonumber(redis.call("zscore", KEYS[2], ARGV[1])))
  end
end
return {ttl, value, place}
