-- lineup.lua is for scripts by which a claim asks for its key, see look.lua.

-- line_up queues the claim, unless it was queued before, and notes when it must
-- be seen again. line_up returns the claim's place, "" if the claim was queued
-- before and is not there any more, or nil behind an entry of a newer version.
-- The second result is whether the claim is new in the queue.
local function line_up()
  local place, new = redis.call("zscore", WAIT, ARGV[2]), false
  if place then
    place = string.format("%.0f", tonumber(place))
  elseif ARGV[3] == "1" then
    return "", false
  else
    place, new = enqueue(ARGV[2], ARGV[4] ~= "0" and ARGV[4] or nil), true
    if not place then
      return nil
    end
  end
  local now = clock()
  local oldest = redis.call("zrange", DUE, 0, 0, "withscores")
  if oldest[1] and now - tonumber(oldest[2]) > QUEUE_LIFE then
    redis.call("zrem", DUE, oldest[1]) -- most likely of a claim that a release took out of the queue
  end
  redis.call("zadd", DUE, now + ARGV[5], ARGV[1])
  prolong(WAIT, ARGV[5] + QUEUE_LIFE - LOOK_EVERY)
  prolong(DUE, ARGV[5] + QUEUE_LIFE - LOOK_EVERY)
  return place, new
end

