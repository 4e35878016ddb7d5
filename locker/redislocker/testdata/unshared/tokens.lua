-- tokens.lua begins every script that reserves fencing tokens.

-- reserve reserves a block of tokens and returns the first of them, as a
-- string. The block begins at the server's clock in microseconds. If that is
-- not greater than the last token given, it begins at the next number. So
-- tokens rise even where the counter was lost, as long as no more of them are
-- reserved than microseconds pass. A block of 64 then outlasts any two
-- requests.
--
-- The counter lasts for life ms beyond the moment when the clock has passed its
-- last token. The clock may step back by as much. With a floor, no token is
-- below it.
local function reserve(key, block, life, floor)
  local time = redis.call("time")
  local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
  local last = tonumber(redis.call("get", key) or 0) or 0
  local first = math.max(now, last + 1, tonumber(floor or 0))
  last = first + tonumber(block) - 1
  redis.call("set", key, string.format("%.0f", last), "px", string.format("%.0f", tonumber(life) + (last - now) / 1000))
  return string.format("%.0f", first)
end

