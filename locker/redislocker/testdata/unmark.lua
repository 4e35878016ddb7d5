local VERSION, LATE, LOOK_EVERY, QUEUE_LIFE, FENCE_BLOCK, COUNTER_LIFE, CROWD = "1", 100, 500, 2000, 64, 1200000, "*guard:several-own-it*"
local OWN, NEXT, INBOXES, KNOWN, KEY = ARGV[2], ARGV[3], ARGV[4], ARGV[5] == "1", ARGV[6]
if redis.pcall("getrange", KEYS[6], 0, #ARGV[1]) == "*" .. ARGV[1] then
  redis.call("del", KEYS[6])
end
if OWN ~= "" then
  redis.pcall("zrem", KEYS[2], OWN)
  redis.pcall("zrem", KEYS[3], ARGV[1])
end
local owned = 0
local value = redis.call("getrange", KEYS[1], 0, #ARGV[1] - 1)
local crowded = value == CROWD
if value == ARGV[1] then
  owned = 1
elseif not crowded and redis.call("exists", KEYS[1]) == 1 then
  return 0 -- its holder's concern
end
local waited = redis.pcall("zcard", KEYS[2])
if type(waited) == "table" then -- an error
  waited = 0
end
if waited == 0 and not crowded then
  redis.call("del", KEYS[1])
  return owned
end
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
local function enqueue(entry, place, empty)
  local last = empty and {} or redis.call("zrange", KEYS[2], -1, -1, "withscores")
  if last[1] and version(last[1]) > VERSION then
    return nil
  end
  place = place or string.format("%.0f", math.max(micros(), (last[2] or 0) + 1))
  redis.call("zadd", KEYS[2], place, entry)
  return place
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
local crowd = {} -- crowd.lua fills it
local function overdue(owner, place)
  local now, due = clock(), place / 1000 + LOOK_EVERY
  if now > due or due > now + LOOK_EVERY + 1 then
    due = tonumber(redis.pcall("zscore", KEYS[3], owner)) or math.min(due, now + LOOK_EVERY)
  end
  return now - due
end
local function lateness(entry, place)
  local made = string.find(entry, "^[mlji][f-]%d%d%d%d") and string.sub(entry, 3, 6) ~= "0000"
  if version(entry) ~= VERSION or not made then
    return nil
  end
  local late = overdue(string.sub(entry, 7, 28), tonumber(place))
  return late <= QUEUE_LIFE - LOOK_EVERY and late or nil
end
local function length(entry, inbox, late, last)
  local short = tonumber(string.sub(entry, 3, 6))
  local hear = KNOWN and redis.pcall("pubsub", "numsub", inbox)
  hear = hear and hear[2] -- nil if the server does not tell
  if hear and hear > 0 then
    return late <= LATE and tonumber(string.match(entry, '^,"offer":([1-9]%d%d%d?)%D', 57)) or short
  end
  local told = string.find(entry, "^[mj]") or late < -LOOK_EVERY - 1
  if not last and (late > LATE or hear and told) then
    return nil -- most likely dead
  end
  return short -- one that only looks finds the key by itself
end
local function offer(entry, limit, late, last, behind, n)
  local inbox, token = INBOXES .. string.sub(entry, 29, 50), "0"
  local ms = length(entry, inbox, late, last)
  if not ms then
    return false
  end
  if string.sub(entry, 2, 2) == "f" then
    local able
    able, token = pcall(reserve, KEYS[4], FENCE_BLOCK, COUNTER_LIFE)
    if not able then
      return false -- a counter that cannot be used is for the claim's own try to report
    end
  end
  if limit == 1 then
    redis.call("set", KEYS[1], string.sub(entry, 7), "px", ms)
  else
    crowd.put(entry, n, ms)
  end
  redis.pcall("publish", inbox, "offered " .. string.format("%.0f", ms) .. " " .. string.sub(entry, 7, 28) .. " " ..
    token .. " " .. string.format("%.0f", behind) .. " " .. KEY)
  return true
end
local function serve(n, waiting, more, alone)
  local most, seen, joined, newer = math.min(waiting, 100), 0, false, nil
  repeat
    local run, low = {}, math.huge -- the claims that may own the key together, and the limit of the strictest
    while seen < most do
      local first = redis.call("zrange", KEYS[2], 0, 0, "withscores")
      local entry = first[1]
      if version(entry) > VERSION then
        newer = version(entry)
        break
      end
      local limit = limit_of(entry)
      if alone and limit ~= 1 then
        return nil, waiting - seen
      end
      local late = lateness(entry, first[2])
      if late then
        if n + #run > 0 and not crowd.room(limit, n, #run, low) then
          break
        end
        run[#run + 1], low = {entry, limit, late}, math.min(low, limit)
      end
      redis.call("zrem", KEYS[2], entry) -- a later look drops what it is due
      seen = seen + 1
      if late and limit == 1 then
        break
      end
    end
    for i, e in ipairs(run) do
      local last = n == 0 and seen == 100 and i == #run
      if offer(e[1], e[2], e[3], last, waiting - seen + more, n) then
        if e[2] == 1 then
          return -1, waiting - seen
        end
        n, joined = n + 1, true
      end
    end
  until #run == 0 or newer or seen == most
  if joined then
    crowd.settle()
  end
  return n, waiting - seen, newer
end
local function follow(empty)
  if owned == 0 or NEXT == "" then
    return ""
  end
  local place = enqueue(NEXT, nil, empty)
  if place and (empty or redis.call("pttl", KEYS[2]) < QUEUE_LIFE) then
    redis.call("pexpire", KEYS[2], QUEUE_LIFE + LOOK_EVERY) -- some more, so that few releases do this
  end
  return place or ""
end
local n, left, newer = nil, waited, nil
if not crowded then
  n, left, newer = serve(0, waited, owned == 1 and NEXT ~= "" and 1 or 0, true)
  if n == -1 then
    return {owned, waited, 1, follow(left == 0)}
  elseif n == 0 then
    redis.call("del", KEYS[1])
    return {owned, waited, 0, "", newer}
  end
end
local LOCK, MEMBERS = KEYS[1], KEYS[5]
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
n = 0
if value == CROWD then
  local own, live = share(ARGV[1], OWN)
  if own then
    redis.call("zrem", KEYS[5], own)
    owned = live and 1 or 0
  end
  n = crowd.settle()
  if n == 0 and waited == 0 then
    return owned
  end
end
local place = follow(left == 0)
left = left + (place ~= "" and 1 or 0)
if left > 0 then
  n, left, newer = serve(n, left, 0)
end
if n == 0 then
  redis.call("del", KEYS[1])
  return {owned, waited, 0, place, newer}
end
return {owned, waited, 1, place}
