-- look.lua tells who holds a key, and notes in the key's wait queue that an instance waits for it.
--
-- KEYS[1]  lock
-- KEYS[2]  wait queue: sorted set of instance id -> when it looked last, in ms of server time
-- ARGV[1]  instance id
-- ARGV[2]  "1" if the instance will wait, else "0"
-- ARGV[3]  how long an entry of the queue lasts, in ms
--
-- Returns nil if the key is free, else {its remaining TTL in ms or -1 for none, the start of its value}.

local ttl = redis.call("pttl", KEYS[1])
if ttl == -2 then
  return false
end
local value = redis.call("getrange", KEYS[1], 0, 2047)

if ARGV[2] == "1" then
  local time = redis.call("time")
  local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
  redis.call("zremrangebyscore", KEYS[2], "-inf", string.format("%.0f", now - tonumber(ARGV[3])))
  redis.call("zadd", KEYS[2], string.format("%.0f", now), ARGV[1])
  redis.call("pexpire", KEYS[2], ARGV[3])
end
return {ttl, value}
