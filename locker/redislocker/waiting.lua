-- waiting.lua counts who waits for a key that was just released.
--
-- KEYS[1]  lock
-- KEYS[2]  wait queue, see look.lua
-- ARGV[1]  instance id: it leaves the queue
-- ARGV[2]  how long an entry of the queue lasts, in ms
--
-- Returns the number of other instances in the queue, or 0 if the key is held: then they are its holder's concern.

if redis.call("exists", KEYS[1]) == 1 then
  return 0
end
local time = redis.call("time")
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
redis.call("zrem", KEYS[2], ARGV[1])
redis.call("zremrangebyscore", KEYS[2], "-inf", string.format("%.0f", now - tonumber(ARGV[2])))
return redis.call("zcard", KEYS[2])
