-- handover.lua goes on behind release.lua and late.lua. It hands the key to the
-- first in the queue, if that claim wants to own it alone and nobody owns it.

local behind = waited
if owned == 1 and NEXT ~= "" then
  behind = behind + 1
end

-- offer gives the key to the claim of an entry. It reports whether the claim's
-- process may be there to have it. It returns nil if it could not give the key.
-- late says that the claim was not seen when it was due. told says that a
-- message was sure to reach its process.
local function offer(entry, version, late, told)
  local next, short = string.sub(entry, 7), tonumber(string.sub(entry, 3, 6))
  local owner, word, ms, token = string.sub(next, 1, 22), "granted ", short, "0"
  if version == "2" then
    if KNOWN and not late then
      ms = tonumber(string.match(entry, '"offer":(%d+)', 57))
    end
    word = "offered " .. string.format("%.0f", ms) .. " "
  end
  if string.sub(entry, 2, 2) == "f" then
    local able
    able, token = pcall(reserve, KEYS[4], FENCE_BLOCK, COUNTER_LIFE)
    if not able then
      return nil -- a counter of another type is for its own try to report
    end
  end
  redis.call("set", KEYS[1], next, "px", ms)
  local heard = redis.pcall("publish", INBOXES .. string.sub(next, 23, 44),
    word .. owner .. " " .. token .. " " .. string.format("%.0f", behind) .. " " .. KEY)
  if not KNOWN or type(heard) == "number" and heard > 0 then
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

for i = 1, crowded and 0 or math.min(waited, 100) do -- bounded: the next that is dead costs a short offer
  local first = redis.call("zrange", KEYS[2], 0, 0, "withscores")
  local entry, owner, late = first[1], string.sub(first[1], 7, 28), 0
  local version = version(entry)
  if version > VERSION then
    redis.call("del", KEYS[1])
    return {owned, waited, 0, "", version}
  end
  if string.sub(entry, -17, -9) == '"limit":"' then -- see crowd.lua
    crowded = true
    break
  end
  if version == "2" then
    late = overdue(owner, tonumber(first[2]))
  end
  redis.call("zrem", KEYS[2], entry) -- a later look drops what it is due
  behind = behind - 1
  local gone = late > QUEUE_LIFE - LOOK_EVERY or late > LATE and not KNOWN -- not seen for QUEUE_LIFE, or most likely dead
  -- One that rests beyond LOOK_EVERY hears, else it had not been let. A place has
  -- fractions of a ms, which the clock has not.
  local told = string.find(entry, "^[mj]") ~= nil or late < -LOOK_EVERY - 1
  local there = not gone and offer(entry, version, late > LATE, told)
  if there or there == false and not gone and i == 100 then
    local place = ""
    if owned == 1 and NEXT ~= "" then
      place = enqueue(NEXT, i == waited) or ""
    end
    return {owned, waited, 1, place}
  end
end
if not crowded then
  redis.call("del", KEYS[1])
  return {owned, waited, 0, ""}
end
