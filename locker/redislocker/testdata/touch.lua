-- touch.lua writes a key as it is, if the owner owns it, so that WAIT has
-- something to wait for on this connection.
--
-- KEYS[1]  lock
-- KEYS[2]  members of a crowd, see crowd.lua
-- ARGV[1]  owner id
--
-- Returns 1, or 0 if the owner does not own the key.

local VERSION, LATE, LOOK_EVERY, QUEUE_LIFE, FENCE_BLOCK, COUNTER_LIFE, CROWD = "1", 100, 500, 2000, 64, 1200000, "*guard:several-own-it*"
local MEMBERS = KEYS[2]

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

local value = redis.call("getrange", KEYS[1], 0, #ARGV[1] - 1)
if value ~= ARGV[1] and (value ~= CROWD or not select(2, share(ARGV[1], ""))) then
  return 0
end
return redis.call("pexpire", KEYS[1], redis.call("pttl", KEYS[1]))
