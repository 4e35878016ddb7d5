-- releasecrowd.lua goes on behind handover.lua. A crowd owns the key, or a
-- claim with a limit is the first in its queue.

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
