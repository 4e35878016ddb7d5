-- The whole sale of one item as one script: nothing can come between its reads and its writes.
--
-- KEYS[1] -> the stock
-- KEYS[2] -> the order book, a list of order ids
-- ARGV[1] -> the order id
-- Returns the stock that is left, or -1 if it was sold out.

if tonumber(redis.call('GET', KEYS[1]) or '0') <= 0 then
  return -1
end
redis.call('RPUSH', KEYS[2], ARGV[1])
return redis.call('DECR', KEYS[1])
