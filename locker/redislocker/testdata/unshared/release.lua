-- release.lua ends an owner's hold, and hands the key over to the first in the
-- queue.
--
-- KEYS[1]  lock
-- KEYS[2]  wait queue, see look.lua and entry.go
-- KEYS[3]  dues, see look.lua
-- KEYS[4]  last fencing token given
-- ARGV[1]  owner id
-- ARGV[2]  the owner's own entry, which leaves the queue, or ""
-- ARGV[3]  the entry that is queued behind all others if the key goes to one of
--          them, or ""
-- ARGV[4]  start of the channel of an inbox, before the instance id
-- ARGV[5]  "1" if it is known that a message has reached nobody, as on a single
--          server, otherwise "0"
-- ARGV[6]  size of a block of fencing tokens
-- ARGV[7]  TTL of the counter in ms
-- ARGV[8]  the key, as messages name it
--
-- Returns {1 if the owner owned the key or otherwise 0, the number of other
-- waiters, 1 if one of them has the key now or otherwise 0, the place of
-- ARGV[3] or ""}. Returns just the first if nobody waited.
--
-- A free key is handed on as well (law 3), because its release may have come
-- too early. An entry of a newer version stays where it is, and the key becomes
-- free. The version is the fifth value then. If the queue is a key of another
-- type, nobody waits in it and the lock is freed.

if ARGV[2] ~= "" then
  redis.pcall("zrem", KEYS[2], ARGV[2])
  redis.pcall("zrem", KEYS[3], ARGV[1])
end
local owned = 0
if redis.call("getrange", KEYS[1], 0, #ARGV[1] - 1) == ARGV[1] then
  owned = 1
elseif redis.call("exists", KEYS[1]) == 1 then
  return 0 -- its holder's concern
end

local waited = redis.pcall("zcard", KEYS[2])
if waited == 0 or type(waited) == "table" then -- a table is an error
  redis.call("del", KEYS[1])
  return owned
end

local known = ARGV[5] == "1"
local now = clock()
local behind = waited
if owned == 1 and ARGV[3] ~= "" then
  behind = behind + 1
end

-- overdue returns for how many ms a claim is overdue. If a release has queued
-- the claim and it has not looked since, its place is the time when it came.
local function overdue(owner, place)
  local due = place / 1000 + LOOK_EVERY
  if now > due then
    due = tonumber(redis.pcall("zscore", KEYS[3], owner)) or due
  end
  return now - due
end

-- offer gives the key to the claim of an entry. It reports whether the claim's
-- process may be there to have it. It returns nil if it could not give the key.
-- late says that the claim was not seen when it was due. told says that a
-- message was sure to reach its process.
local function offer(entry, version, late, told)
  local next, short = string.sub(entry, 7), tonumber(string.sub(entry, 3, 6))
  local owner, word, ms, token = string.sub(next, 1, 22), "granted ", short, "0"
  if version == "2" then
    if known and not late then
      ms = tonumber(string.match(entry, '"offer":(%d+)', 57))
    end
    word = "offered " .. string.format("%.0f", ms) .. " "
  end
  if string.sub(entry, 2, 2) == "f" then
    local able
    able, token = pcall(reserve, KEYS[4], ARGV[6], ARGV[7])
    if not able then
      return nil -- a counter of another type is for its own try to report
    end
  end
  redis.call("set", KEYS[1], next, "px", ms)
  local heard = redis.pcall("publish", ARGV[4] .. string.sub(next, 23, 44),
    word .. owner .. " " .. token .. " " .. string.format("%.0f", behind) .. " " .. ARGV[8])
  if not known or type(heard) == "number" and heard > 0 then
    return true
  end
  redis.call("pexpire", KEYS[1], short)
  return not late and (heard ~= 0 or not told) -- one that only looks finds the key by itself
end

-- enqueue puts an entry behind all others and returns its place. It returns nil
-- if a newer version has queued the last entry. If alone, no other entry is in
-- the queue, and the queue has no TTL yet.
local function enqueue(entry, alone)
  local place = alone and string.format("%.0f", micros()) or back(KEYS[2])
  if not place then
    return nil
  end
  redis.call("zadd", KEYS[2], place, entry)
  if alone or redis.call("pttl", KEYS[2]) < QUEUE_LIFE then
    redis.call("pexpire", KEYS[2], QUEUE_LIFE + LOOK_EVERY) -- some more, so that few releases do this
  end
  return place
end

for i = 1, math.min(waited, 100) do -- bounded: the next that is dead costs a short offer
  local first = redis.call("zrange", KEYS[2], 0, 0, "withscores")
  local entry, owner, late = first[1], string.sub(first[1], 7, 28), 0
  local version = version(entry)
  if version > VERSION then
    redis.call("del", KEYS[1])
    return {owned, waited, 0, "", version}
  end
  if version == "2" then
    late = overdue(owner, tonumber(first[2]))
  end
  redis.call("zrem", KEYS[2], entry) -- a later look drops what it is due
  behind = behind - 1
  local gone = late > QUEUE_LIFE - LOOK_EVERY or late > LATE and not known -- not seen for QUEUE_LIFE, or most likely dead
  local told = string.sub(entry, 1, 1) == "m" or late < -LOOK_EVERY -- a rest, which only those are granted that hear
  local there = not gone and offer(entry, version, late > LATE, told)
  if there or there == false and not gone and i == 100 then
    local place = ""
    if owned == 1 and ARGV[3] ~= "" then
      place = enqueue(ARGV[3], i == waited) or ""
    end
    return {owned, waited, 1, place}
  end
end
redis.call("del", KEYS[1])
return {owned, waited, 0, ""}
