-- all.lua makes claims the owners of several keys: of all of them, or of none
-- if somebody else owns one, or of those in front of the first such key.
--
-- KEYS     locks, and behind them a counter of tokens for each
-- ARGV[1]  "1" for the keys in front, "0" for all or none
-- ARGV[2]  TTL in ms
-- ARGV[3]  "1" to reserve a block of tokens for each
-- ARGV[4...] for each key what it is set to: owner id, instance id, a line about
--          the holder
--
-- Returns a list. First is the place of the first key that somebody else owns,
-- from 0, or the number of keys. Behind it are the remaining TTL in ms and the
-- start of the value of that key, or 0 and "". Behind them is the first token
-- of each key that has its owner now, or "".

local n = math.floor(#KEYS / 2) -- for Lua 5.4, which would return a float otherwise
local held, ttl, about = n, 0, ""
for i = 1, n do
  local value = redis.call("getrange", KEYS[i], 0, 2047)
  if string.sub(value, 1, 22) ~= string.sub(ARGV[i + 3], 1, 22) and redis.call("pttl", KEYS[i]) ~= -2 then
    held, ttl, about = i - 1, redis.call("pttl", KEYS[i]), value
    break
  end
end
local last = held
if held < n and ARGV[1] == "0" then
  last = 0
end
local answer = {held, ttl, about}
for i = 1, last do -- first, because they may fail
  answer[i + 3] = ARGV[3] == "1" and reserve(KEYS[n + i], FENCE_BLOCK, COUNTER_LIFE) or ""
end
for i = 1, last do
  redis.call("set", KEYS[i], ARGV[i + 3], "px", ARGV[2])
end
return answer
