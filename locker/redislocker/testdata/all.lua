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

local VERSION, LATE, LOOK_EVERY, QUEUE_LIFE, FENCE_BLOCK, COUNTER_LIFE, CROWD = "1", 100, 500, 2000, 64, 1200000, "*guard:several-own-it*"

-- tokens.lua is for every script that reserves fencing tokens.

-- reserve reserves a block of tokens and returns the first of them, as a
-- string. The block begins at the server's clock in microseconds. If that is
-- not greater than the last token given, the block begins at the next number.
-- Tokens rise even where the counter was lost, as long as no more of them are
-- reserved than microseconds pass. A block of 64 then outlasts any two
-- requests.
--
-- The counter lasts for life ms beyond the moment when the clock has passed its
-- last token. The clock may step back by as much. With a floor, no token is
-- below it.
--
-- A counter that is no number counts as lost. Beyond 2^53 numbers are not
-- exact, and no locker writes such a counter. The error about such a counter,
-- or about one of another type, begins with COUNTER, because it says nothing
-- about the lock.
local function reserve(key, block, life, floor)
  local time = redis.call("time")
  local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
  local last = redis.pcall("get", key)
  if type(last) == "table" then -- an error
    error(string.find(last.err, "WRONGTYPE", 1, true) and "COUNTER " .. last.err or last.err, 0)
  end
  last = tonumber(last or 0) or 0
  local first = math.max(now, last + 1, tonumber(floor or 0))
  last = first + tonumber(block) - 1
  if not (last < 9007199254740992) then
    error("COUNTER the last fencing token is no number below 2^53", 0)
  end
  redis.call("set", key, string.format("%.0f", last), "px", string.format("%.0f", tonumber(life) + (last - now) / 1000))
  return string.format("%.0f", first)
end

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
