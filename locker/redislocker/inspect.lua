-- inspect.lua returns the holder of a key and its waiters. It changes nothing.
--
-- KEYS[1]  lock
-- KEYS[2]  wait queue, see look.lua
-- ARGV[1]  max number of entries to return
--
-- Returns {remaining TTL in ms, -1 for none or -2 if the key is free, the start
-- of its value, the number of waiters, the entries of the first of them}.

return {
  redis.call("pttl", KEYS[1]),
  redis.call("getrange", KEYS[1], 0, 2047),
  redis.call("zcard", KEYS[2]),
  redis.call("zrange", KEYS[2], 0, ARGV[1] - 1),
}
