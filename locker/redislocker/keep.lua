-- keep.lua stands in front of release.lua. The owner stores a record, and all
-- claims that wait for one leave the queue and are told.
--
-- KEYS[6]  record
-- ARGV[1]  owner id
-- ARGV[2]  to ARGV[6] are OWN, NEXT, INBOXES, KNOWN ("1" or "0") and KEY, in
--          place of the arguments of release.lua
-- ARGV[7]  what the record is set to: the owner id, then the value
-- ARGV[8]  its TTL in ms
-- ARGV[9]  the value as messages carry it, or "" if it is too long for them
--
-- Returns 2 if an earlier request of this owner has stored the record, or what
-- release.lua returns.

if redis.call("getrange", KEYS[1], 0, #ARGV[1] - 1) == ARGV[1] then
  redis.call("set", KEYS[6], ARGV[7], "px", ARGV[8])
  local waiting = redis.pcall("zrange", KEYS[2], 0, -1) -- without entries if it is an error
  for _, entry in ipairs(waiting) do
    local how = string.sub(entry, 1, 1)
    if how == "j" or how == "i" then
      redis.call("zrem", KEYS[2], entry)
      redis.pcall("zrem", KEYS[3], string.sub(entry, 7, 28))
      redis.pcall("publish", ARGV[4] .. string.sub(entry, 29, 50),
        "recorded " .. string.sub(entry, 7, 28) .. " " .. ARGV[6] .. "\n" .. ARGV[9])
    end
  end
elseif redis.call("getrange", KEYS[6], 0, #ARGV[1] - 1) == ARGV[1] then -- a mark begins with "*"
  redis.call("pexpire", KEYS[6], redis.call("pttl", KEYS[6])) -- so that WAIT has something to wait for
  return 2
end
