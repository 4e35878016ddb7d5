-- inspect.lua returns the owners of a key and its waiters, and changes nothing.
--
-- KEYS[1]  lock
-- KEYS[2]  wait queue, see look.lua
-- KEYS[3]  members of a crowd, see crowd.lua
-- KEYS[4]  record, see keep.lua
-- ARGV[1]  max number of entries to return
--
-- Returns {remaining TTL in ms, -1 for none or -2 if the key is free, the start
-- of its value, the number of waiters, the entries of the first of them, those
-- of the members of a crowd, the length of the record without its owner id, its
-- remaining TTL, its first three bytes}. Both numbers are 0 if no claim would
-- find a record. A record is read as a whole, because the rights for leases do
-- not have STRLEN.

local VERSION, LATE, LOOK_EVERY, QUEUE_LIFE, FENCE_BLOCK, COUNTER_LIFE, CROWD = "1", 100, 500, 2000, 64, 1200000, "*guard:several-own-it*"

-- entry.lua is for every script that reads or queues entries. entry.go
-- describes an entry. Constants stand in front of it, see consts in script.go.

-- version returns the version of an entry, one character, or "" if no locker
-- has made the entry.
local function version(entry)
  return string.match(entry, '^{"v":(.)', 51) or ""
end

-- limit_of returns the limit of an entry, 1 for a claim that owns its key
-- alone.
local function limit_of(entry)
  if string.sub(entry, -17, -9) == '"limit":"' then
    return tonumber(string.match(entry, "^%d%d%d%d%d%d", -8)) or 1
  end
  return 1
end

-- micros returns the time in µs by the server's clock, which is the same
-- throughout a script.
local started
local function micros()
  if not started then
    local time = redis.call("time")
    started = time[1] * 1000000 + time[2]
  end
  return started
end

-- clock returns the time in ms by the server's clock.
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
