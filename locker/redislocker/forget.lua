-- forget.lua deletes the record of a key. It leaves the mark of an owner that
-- still owns the key (law 20).
--
-- KEYS[1]  lock
-- KEYS[2]  record
-- ARGV[1]  length of an owner id
--
-- Returns 1, or 0 if there was no record that counts.

local kept = redis.call("getrange", KEYS[2], 0, ARGV[1])
if kept == "*" .. redis.call("getrange", KEYS[1], 0, ARGV[1] - 1) then
  return 0
end
return redis.call("del", KEYS[2])
