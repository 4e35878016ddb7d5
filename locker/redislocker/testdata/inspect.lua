local VERSION, LATE, LOOK_EVERY, QUEUE_LIFE, FENCE_BLOCK, COUNTER_LIFE, CROWD = "1", 100, 500, 2000, 64, 1200000, "*guard:several-own-it*"
local function version(entry)
  return string.match(entry, '^{"v":(.)', 51) or ""
end
local function limit_of(entry)
  if string.sub(entry, -17, -9) == '"limit":"' then
    return tonumber(string.match(entry, "^%d%d%d%d%d%d", -8)) or 1
  end
  return 1
end
local started
local function micros()
  if not started then
    local time = redis.call("time")
    started = time[1] * 1000000 + time[2]
  end
  return started
end
local function clock()
  return math.floor(micros() / 1000)
end
local ttl, value = redis.call("pttl", KEYS[1]), redis.call("getrange", KEYS[1], 0, 2047)
local members = {}
if string.sub(value, 1, 22) == CROWD then
  local all = redis.call("zrange", KEYS[3], 0, -1, "withscores")
  for i = 1, #all, 2 do
    if tonumber(all[i + 1]) > clock() and #members < tonumber(ARGV[1]) then
      members[#members + 1] = all[i]
    end
  end
  if #members == 0 then
    ttl = -2
  end
end
local length, remaining, head = 0, 0, ""
local record = redis.pcall("getrange", KEYS[4], 0, -1)
if type(record) == "string" and string.sub(record, 1, 1) == "*" then -- a mark, see begin.lua
  record = string.sub(record, 2, 23) ~= string.sub(value, 1, 22) and string.sub(record, 2) or ""
end
if type(record) == "string" and #record > 22 then
  length, remaining, head = #record - 22, redis.call("pttl", KEYS[4]), string.sub(record, 23, 25)
end
return {ttl, value, redis.call("zcard", KEYS[2]), redis.call("zrange", KEYS[2], 0, ARGV[1] - 1), members,
  length, remaining, head}
