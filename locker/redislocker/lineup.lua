-- lineup.lua is for every script by which a claim asks for its key.
--
-- ARGV[1]  owner id
-- ARGV[2]  the claim's entry, or "" if it will not wait
-- ARGV[3]  "1" if it was queued before. A claim that is not there any more was
--          granted, and must not come back (law 2)
-- ARGV[4]  its place, or "0" for the back of the queue
-- ARGV[5]  max ms until the next look at it: LOOK_EVERY, or the rest that it is
--          granted
-- ARGV[6]  INBOXES: start of the channel of an inbox, before the instance id
-- ARGV[7]  message for the owner's inbox, if the claim is new in the queue, or
--          the owner lingers: "wanted " and KEY
-- ARGV[8]  KNOWN: "1" if the server knows who hears a message, as a single
--          server does

-- line_up queues the claim behind the owner with this value, unless the claim
-- was queued before, and notes when it must be seen again. line_up returns the
-- claim's place, "" if the claim was queued before and is not there any more, or
-- nil behind an entry of a newer version. The second result is whether the
-- owner's process must be told (law 4).
local function line_up(value)
  local place, tell = redis.call("zscore", KEYS[2], ARGV[2]), false
  if place then
    place = string.format("%.0f", tonumber(place))
    tell = string.find(value, ',"lingers":true', 45, true)
  elseif ARGV[3] == "1" then
    return "", false
  else
    place, tell = enqueue(ARGV[2], ARGV[4] ~= "0" and ARGV[4] or nil), true
    if not place then
      return nil
    end
  end
  local now = clock()
  local oldest = redis.call("zrange", KEYS[3], 0, 0, "withscores")
  if oldest[1] and now - tonumber(oldest[2]) > QUEUE_LIFE then
    redis.call("zrem", KEYS[3], oldest[1]) -- most likely of a claim that a release took out of the queue
  end
  redis.call("zadd", KEYS[3], now + ARGV[5], ARGV[1])
  local life = ARGV[5] + QUEUE_LIFE - LOOK_EVERY
  for i = 2, 3 do
    if redis.call("pttl", KEYS[i]) < life then
      redis.call("pexpire", KEYS[i], life)
    end
  end
  return place, tell
end
