-- back.lua begins every script that queues a claim behind all others.

-- back returns the place behind the last in a queue, as a string. It is the
-- time in µs by the server's clock. If that is not greater than the last place,
-- as when the clock was set back, it is the next number. back returns nil if a
-- newer version has queued the last entry.
local function back(queue)
  local last = redis.call("zrange", queue, -1, -1, "withscores")
  if last[1] and version(last[1]) > VERSION then
    return nil
  end
  return string.format("%.0f", math.max(micros(), (last[2] or 0) + 1))
end

