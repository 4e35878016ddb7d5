local VERSION, LATE, LOOK_EVERY, QUEUE_LIFE, FENCE_BLOCK, COUNTER_LIFE, CROWD = "1", 100, 500, 2000, 64, 1200000, "*guard:several-own-it*"
local LOCK, MEMBERS, crowd = KEYS[1], KEYS[2], {}
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
local function write(limit, ms)
  redis.call("set", LOCK, CROWD .. string.rep("-", 22) .. string.format("limit %06d", limit), "px", ms)
end
function crowd.settle()
  local now = clock()
  while true do
    local first = redis.call("zrange", MEMBERS, 0, 0, "withscores")
    if not first[1] or tonumber(first[2]) > now then
      break
    end
    redis.call("zrem", MEMBERS, first[1])
  end
  local last = redis.call("zrange", MEMBERS, -1, -1, "withscores")[2]
  if not last then
    redis.call("del", LOCK)
    return 0
  end
  local left = tonumber(last) - now
  if redis.call("pexpire", LOCK, left) == 0 then
    write(1, left)
  end
  redis.call("pexpire", MEMBERS, left)
  return redis.call("zcard", MEMBERS)
end
function crowd.room(limit, n, extra, low)
  local m = n + extra
  if m >= limit or m >= low then
    return false
  elseif n == 0 then
    return true
  end
  local lowest = tonumber(redis.call("getrange", LOCK, 50, 55)) or 1
  if m < lowest then
    return true
  end
  lowest = math.huge -- a member with that limit may have left
  for _, entry in ipairs(redis.call("zrange", MEMBERS, 0, -1)) do
    lowest = math.min(lowest, limit_of(entry))
  end
  write(lowest, math.max(redis.call("pttl", LOCK), 1))
  return m < lowest
end
function crowd.add(entry, ms)
  redis.call("pexpire", MEMBERS, ms) -- otherwise the members may end before settle
  redis.call("zadd", MEMBERS, clock() + ms, entry)
end
function crowd.put(entry, n, ms)
  local limit = limit_of(entry)
  if n == 0 then
    redis.call("del", MEMBERS) -- what is left of an earlier crowd
    write(limit, ms)
  elseif limit < (tonumber(redis.call("getrange", LOCK, 50, 55)) or math.huge) then
    write(limit, math.max(redis.call("pttl", LOCK), 1))
  end
  crowd.add(entry, ms)
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
if redis.call("getrange", KEYS[1], 0, #CROWD - 1) ~= CROWD then
  return 0
end
local entry, live = share(ARGV[1], ARGV[2])
if not live then
  return 0
end
crowd.add(entry, ARGV[3])
crowd.settle()
return 1
