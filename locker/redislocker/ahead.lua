-- ahead.lua is for scripts by which a claim asks for a key that a crowd may
-- own.

-- ahead reports whether a claim that was seen lately stands in front of this
-- entry, or of its place if it is not in the queue (law 10).
local function ahead(entry, place)
  for i = 0, 99 do
    local other = redis.call("zrange", KEYS[2], i, i, "withscores")
    if not other[1] or other[1] == entry or place ~= "0" and tonumber(place) < tonumber(other[2]) then
      return false
    end
    if overdue(string.sub(other[1], 7, 28), tonumber(other[2])) < LOOK_EVERY then
      return true
    end
  end
  return true
end
