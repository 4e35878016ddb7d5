-- releasecrowd.lua goes on behind handover.lua, crowd.lua, share.lua and serve.lua.
-- A crowd owns the key, or a claim with a limit is the first in its queue.

local n = 0
if value == CROWD then
  local own, ends = OWN, OWN ~= "" and redis.call("zscore", MEMBERS, OWN)
  local live = ends and tonumber(ends) > clock()
  if not ends then
    own, live = share(ARGV[1])
  end
  if own then
    redis.call("zrem", MEMBERS, own)
    owned = live and 1 or 0
  end
  n = settle()
  if n == 0 and waited == 0 then
    return owned
  end
end
local place, newer = "", nil
if owned == 1 and NEXT ~= "" then
  place = enqueue(NEXT, false) or ""
end
if waited > 0 or place ~= "" then
  n, newer = serve(n)
end
if n == 0 then
  redis.call("del", LOCK)
  return {owned, waited, 0, place, newer}
end
return {owned, waited, 1, place}
