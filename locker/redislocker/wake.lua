-- wake.lua wakes the instance that has waited longest for a key that is free.
--
-- KEYS[1]  lock
-- KEYS[2]  wait queue, see queue.lua
-- ARGV[1]  instance id: it leaves the queue; "" for none
-- ARGV[2]  "1" if it goes to the back of the queue when another is woken, else "0"
-- ARGV[3]  how long the queue lasts without a look, in ms
-- ARGV[4]  what an inbox's channel starts with, before the instance id
-- ARGV[5]  message for the inbox of the one that is woken, behind the number of instances that still wait
-- ARGV[6]  "1" if a message that reached nobody is known to have done so, as on a single server, else "0"
--
-- Returns {how many other instances waited, 1 if one of them was told or else 0}; {0, 0} if the key is held: then they
-- are its holder's concern.

if redis.call("zcard", KEYS[2]) == 0 or redis.call("exists", KEYS[1]) == 1 then
  return {0, 0}
end
redis.call("zrem", KEYS[2], ARGV[1])
local waited = redis.call("zcard", KEYS[2])
for waiting = waited, 1, -1 do
  local first = redis.call("zrange", KEYS[2], 0, 0)[1]
  local behind = waiting - 1 + tonumber(ARGV[2])
  local reached = redis.pcall("publish", ARGV[4] .. first, string.format("%.0f", behind) .. " " .. ARGV[5])
  if type(reached) == "table" then
    return {waited, 0} -- without the right to publish they look by themselves
  end
  redis.call("zrem", KEYS[2], first)
  if reached > 0 or ARGV[6] ~= "1" then
    if ARGV[2] == "1" then
      local time = redis.call("time")
      local place = string.format("%.0f", tonumber(time[1]) * 1000000 + tonumber(time[2]))
      redis.call("zadd", KEYS[2], place, ARGV[1])
      redis.call("pexpire", KEYS[2], ARGV[3])
    end
    return {waited, 1}
  end
end
return {waited, 0}
