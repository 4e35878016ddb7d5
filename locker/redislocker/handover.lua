-- handover.lua goes on behind release.lua and offer.lua. It hands the key to the
-- first in the queue, if that claim wants to own it alone and nobody owns it.

local behind = waited
if owned == 1 and NEXT ~= "" then
  behind = behind + 1
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
  local entry = first[1]
  local version = version(entry)
  if version > VERSION then
    redis.call("del", KEYS[1])
    return {owned, waited, 0, "", version}
  end
  if string.sub(entry, -17, -9) == '"limit":"' then -- see crowd.lua
    crowded = true
    break
  end
  redis.call("zrem", KEYS[2], entry) -- a later look drops what it is due
  behind = behind - 1
  local late = lateness(entry, first[2])
  if late and offer(entry, late, i == 100, behind) then
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
