-- stay.lua gives a claim with a limit its full TTL again, if its share of the
-- key has not ended. The script never creates a key, and never puts back a
-- share.
--
-- KEYS[1]  lock
-- KEYS[2]  members of a crowd, see crowd.lua
-- ARGV[1]  owner id
-- ARGV[2]  its entry, or "" if that is not known
-- ARGV[3]  TTL in ms
--
-- Returns 1, or 0 if the claim does not own the key.

local VERSION, LATE, LOOK_EVERY, QUEUE_LIFE, FENCE_BLOCK, COUNTER_LIFE, CROWD = "1", 100, 500, 2000, 64, 1200000, "*guard:several-own-it*"
local LOCK, MEMBERS, crowd = KEYS[1], KEYS[2], {}

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

-- crowd.lua is for scripts that meet a crowd: several claims that own a key at
-- once. LOCK and MEMBERS in front of it are the names of the key's entries.
--
-- The entry of a claim ends with its limit, see entry.go. A claim may own the
-- key if fewer own it than its own limit, and fewer than the limit of each
-- owner (law 9). room decides that, and settle drops shares that have ended.
--
-- While a crowd owns it, the lock is CROWD, 22 dashes and "limit NNNNNN". No
-- owner id begins with "*". Hence the lock is nobody's own, and held for plain
-- users of the name. The limit is the lowest of those that have joined. MEMBERS
-- is a sorted set: the entry of each member -> when its share ends, in ms by
-- the server's clock. Both keys end with the last share.

-- write makes the lock that of a crowd with this limit, for ms.
local function write(limit, ms)
  redis.call("set", LOCK, CROWD .. string.rep("-", 22) .. string.format("limit %06d", limit), "px", ms)
end

-- settle drops the members whose share has ended, lets the keys end with the
-- last share, and returns how many members are left. With none the key is free.
--
-- The clock of some servers goes on during a script. What ends meanwhile is
-- nobody else's, and is written again. room finds its limit.
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

-- room reports whether a claim of this limit may join n members, and extra ones
-- that will be members, of which the strictest allows low.
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

-- add makes an entry a member for ms. settle must follow, because the keys must
-- last as long as the last share.
function crowd.add(entry, ms)
  redis.call("pexpire", MEMBERS, ms) -- otherwise the members may end before settle
  redis.call("zadd", MEMBERS, clock() + ms, entry)
end

-- put is add beside n members.
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

-- share.lua is for scripts that ask whether a claim has a share of a key that a
-- crowd owns, see crowd.lua.

-- share returns the entry of a claim that is a member, and whether its share
-- has not ended. The claim is known by its entry, or for "" by its owner id
-- alone. share returns nil if there is no such member.
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
