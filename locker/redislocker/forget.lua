-- forget.lua deletes the record of a key, if it is still the one that was read
-- before, so that a late run leaves a later record. The script also leaves the
-- mark of an owner that still owns the key (law 12).
--
-- KEYS[1]  lock
-- KEYS[2]  record
-- ARGV[1]  length of an owner id
-- ARGV[2]  start of the record: one more byte than that
--
-- Returns 1, or 0 if there was no such record, or it does not count.

local record = redis.call("getrange", KEYS[2], 0, ARGV[1])
if record ~= ARGV[2] or record == "*" .. redis.call("getrange", KEYS[1], 0, ARGV[1] - 1) then
  return 0
end
return redis.call("del", KEYS[2])
