-- fence.lua reserves a block of fencing tokens for the owner of a key: the server's clock in microseconds, or the next
-- number if that is not greater than the last one given. So tokens rise even where the counter was lost, as long as no
-- more of them are reserved than microseconds pass: a block of 64 then outlasts any two requests.
--
-- KEYS[1]  lock
-- KEYS[2]  last token given
-- ARGV[1]  owner id
-- ARGV[2]  size of the block
-- ARGV[3]  TTL of the counter in ms
--
-- Returns the first token of the block as a string, or nil if the owner does not own the key.

if redis.call("getrange", KEYS[1], 0, #ARGV[1] - 1) ~= ARGV[1] then
  return false
end
local time = redis.call("time")
local first = tonumber(time[1]) * 1000000 + tonumber(time[2])
local last = tonumber(redis.call("get", KEYS[2]) or 0) or 0
if first <= last then
  first = last + 1
end
redis.call("set", KEYS[2], string.format("%.0f", first + tonumber(ARGV[2]) - 1), "px", ARGV[3])
return string.format("%.0f", first)
