-- inspect.lua returns the owners of a key and its waiters, and changes nothing.
--
-- KEYS[1]  lock
-- KEYS[2]  wait queue, see look.lua
-- KEYS[3]  members of a crowd, see crowd.lua
-- KEYS[4]  record, see keep.lua
-- ARGV[1]  max number of entries to return
--
-- Returns {remaining TTL in ms, -1 for none or -2 if the key is free, the start
-- of its value, the number of waiters, the entries of the first of them, those
-- of the members of a crowd, the length of the record without its owner id, its
-- remaining TTL, its first three bytes}. Both numbers are 0 if no claim would
-- find a record. A record is read as a whole, because the rights for leases do
-- not have STRLEN.

local ttl, value = redis.call("pttl", KEYS[1]), redis.call("getrange", KEYS[1], 0, 2047)
local members = {}
if string.sub(value, 1, 22) == CROWD then
  local all = redis.call("zrange", KEYS[3], 0, -1, "withscores")
  for i = 1, #all, 2 do
    if tonumber(all[i + 1]) > clock() and #members < tonumber(ARGV[1]) then
      members[#members + 1] = all[i]
    end
  end
  if #members == 0 then
    ttl = -2
  end
end
local length, remaining, head = 0, 0, ""
local record = redis.pcall("getrange", KEYS[4], 0, -1)
if type(record) == "string" and string.sub(record, 1, 1) == "*" then -- a mark, see begin.lua
  record = string.sub(record, 2, 23) ~= string.sub(value, 1, 22) and string.sub(record, 2) or ""
end
if type(record) == "string" and #record > 22 then
  length, remaining, head = #record - 22, redis.call("pttl", KEYS[4]), string.sub(record, 23, 25)
end
return {ttl, value, redis.call("zcard", KEYS[2]), redis.call("zrange", KEYS[2], 0, ARGV[1] - 1), members,
  length, remaining, head}
