-- Writes an order and the stock that is left, together.
--
-- KEYS[1] -> the stock
-- KEYS[2] -> the order book, a list of order ids
-- KEYS[3] -> the newest fencing token that ever wrote
-- KEYS[4] -> how many late writes were refused
-- ARGV[1] -> the stock that is left, as the caller reckons
-- ARGV[2] -> the order id
-- ARGV[3] -> the fencing token of the caller's lease, '' to write without
-- Returns {1, token} if it wrote, {0, newest token} if it refused a late write.
--
-- Tokens are compared as numbers: Lua's are exact up to 2^53, and tokens stay below that until the year 2255.

local token = ARGV[3]
if token ~= '' then
  local newest = redis.call('GET', KEYS[3]) or '0'
  if tonumber(token) < tonumber(newest) then
    redis.call('INCR', KEYS[4])
    return {0, newest}
  end
  redis.call('SET', KEYS[3], token)
end
redis.call('SET', KEYS[1], ARGV[1])
redis.call('RPUSH', KEYS[2], ARGV[2])
return {1, token}
