-- queue.lua is for every script that queues a claim, or hands a key over.
--
-- KEYS[1]  lock
-- KEYS[2]  wait queue: sorted set of entry -> place, see entry.go
-- KEYS[3]  dues: sorted set of owner id -> when its claim must be seen again,
--          in ms by the server's clock
-- KEYS[4]  last fencing token given
-- KEYS[5]  members of a crowd, see crowd.lua

-- enqueue puts an entry in the queue and returns its place, as a string. A nil
-- place is the one behind all others: the time in µs by the server's clock, or
-- the next number if that is not greater than the last place, as when the clock
-- was set back. empty says that no entry is in the queue. enqueue returns nil
-- if a newer version has queued the last entry.
local function enqueue(entry, place, empty)
  local last = empty and {} or redis.call("zrange", KEYS[2], -1, -1, "withscores")
  if last[1] and version(last[1]) > VERSION then
    return nil
  end
  place = place or string.format("%.0f", math.max(micros(), (last[2] or 0) + 1))
  redis.call("zadd", KEYS[2], place, entry)
  return place
end
