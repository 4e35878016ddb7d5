local VERSION, LATE, LOOK_EVERY, QUEUE_LIFE, FENCE_BLOCK, COUNTER_LIFE, CROWD = "1", 100, 500, 2000, 64, 1200000, "*guard:several-own-it*"
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
