local VERSION, LATE, LOOK_EVERY, QUEUE_LIFE, FENCE_BLOCK, COUNTER_LIFE, CROWD = "1", 100, 500, 2000, 64, 1200000, "*guard:several-own-it*"
local MEMBERS = KEYS[3]
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
local function share(owner, entry)
  if entry ~= "" then
    local ends = redis.call("zscore", MEMBERS, entry)
    return ends and entry, ends and tonumber(ends) > clock()
  end
  local all = redis.call("zrange", MEMBERS, 0, -1, "withscores")
  for i = 1, #all, 2 do
    if string.sub(all[i], 7, 28) == owner then
      return all[i], tonumber(all[i + 1]) > clock()
    end
  end
end
local value = redis.call("getrange", KEYS[1], 0, #ARGV[1] - 1)
if value ~= ARGV[1] and (value ~= CROWD or not select(2, share(ARGV[1], ""))) then
  return false
end
return reserve(KEYS[2], ARGV[2], ARGV[3], ARGV[4])
