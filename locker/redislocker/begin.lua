-- begin.lua marks a key before a function runs under its owner (law 12).
--
-- KEYS[1]  lock
-- KEYS[2]  record
-- ARGV[1]  owner id
-- ARGV[2]  what the record is set to: "*" and the owner id, then the mark
-- ARGV[3]  its TTL in ms
--
-- Returns 1, or 0 if the owner does not own the key, or the record or mark of
-- another owner that is there already.

if redis.call("getrange", KEYS[1], 0, #ARGV[1] - 1) ~= ARGV[1] then
  return 0
end
local record = redis.call("getrange", KEYS[2], 0, #ARGV[1])
if record ~= "" and record ~= "*" .. ARGV[1] then
  return redis.call("get", KEYS[2])
end
redis.call("set", KEYS[2], ARGV[2], "px", ARGV[3])
return 1
