-- handover.lua goes on behind release.lua. It hands the key to the first in the
-- queue, if that claim wants to own it alone and nobody owns it.

-- follow queues NEXT, if the owner owned the key, and returns its place or "".
-- empty says that no entry is in the queue, and the queue has no TTL yet.
local function follow(empty)
  if owned == 0 or NEXT == "" then
    return ""
  end
  local place = enqueue(NEXT, nil, empty)
  if place and (empty or redis.call("pttl", KEYS[2]) < QUEUE_LIFE) then
    redis.call("pexpire", KEYS[2], QUEUE_LIFE + LOOK_EVERY) -- some more, so that few releases do this
  end
  return place or ""
end

local n, left, newer = nil, waited, nil
if not crowded then
  n, left, newer = serve(0, waited, owned == 1 and NEXT ~= "" and 1 or 0, true)
  if n == -1 then
    return {owned, waited, 1, follow(left == 0)}
  elseif n == 0 then
    redis.call("del", KEYS[1])
    return {owned, waited, 0, "", newer}
  end
end
