-- Writes an order and the stock that is left, together. With a fencing token it runs behind redisfence's check.
--
-- KEYS[1] -> the stock
-- KEYS[2] -> the order book, a list of order ids
-- ARGV[1] -> the stock that is left, as the caller reckons
-- ARGV[2] -> the order id

redis.call('SET', KEYS[1], ARGV[1])
redis.call('RPUSH', KEYS[2], ARGV[2])
return 1
