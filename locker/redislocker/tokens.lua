-- tokens.lua begins every script that reserves fencing tokens.

-- reserve reserves a block of tokens: from the server's clock in microseconds on, or from the next number if that is not
-- greater than the last one given. So tokens rise even where the counter was lost, as long as no more of them are reserved
-- than microseconds pass: a block of 64 then outlasts any two requests. The counter lasts for life ms beyond the moment in
-- which the clock has passed its last token: so long may the clock step back. It returns the first of the block as a string.
local function reserve(key, block, life)
  local time = redis.call("time")
  local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
  local last = tonumber(redis.call("get", key) or 0) or 0
  local first = math.max(now, last + 1)
  last = first + tonumber(block) - 1
  redis.call("set", key, string.format("%.0f", last), "px", string.format("%.0f", tonumber(life) + (last - now) / 1000))
  return string.format("%.0f", first)
end

