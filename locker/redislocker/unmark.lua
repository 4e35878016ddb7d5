-- unmark.lua stands in front of release.lua, and removes the mark of an owner
-- under whom nothing was done, whether or not it still owns the key (law 12).
--
-- KEYS[6]  record
-- ARGV[1]  owner id
-- ARGV[2]  to ARGV[6] are OWN, NEXT, INBOXES, KNOWN ("1" or "0") and KEY, in
--          place of the arguments of release.lua
--
-- Returns what release.lua returns.

if redis.pcall("getrange", KEYS[6], 0, #ARGV[1]) == "*" .. ARGV[1] then
  redis.call("del", KEYS[6])
end
