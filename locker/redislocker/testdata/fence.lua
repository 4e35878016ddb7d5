-- fence.lua reserves a block of fencing tokens for the owner of a key.
--
-- KEYS[1]  lock
-- KEYS[2]  last token given
-- KEYS[3]  members of a crowd, see crowd.lua
-- ARGV[1]  owner id
-- ARGV[2]  size of the block
-- ARGV[3]  TTL of the counter in ms
-- ARGV[4]  min value of the first token, 0 for any
--
-- Returns the first token of the block as a string, or nil if the owner does
-- not own the key.

local VERSION, LATE, LOOK_EVERY, QUEUE_LIFE, FENCE_BLOCK, COUNTER_LIFE, CROWD = "1", 100, 500, 2000, 64, 1200000, "*guard:several-own-it*"
local MEMBERS = KEYS[3]

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
  return false
end
return reserve(KEYS[2], ARGV[2], ARGV[3], ARGV[4])
