-- release.lua ends an owner's hold, and hands the key over to the first in the queue.
--
-- KEYS[1]  lock
-- KEYS[2]  wait queue, see look.lua and entry.go
-- KEYS[3]  last fencing token given
-- ARGV[1]  owner id
-- ARGV[2]  the owner's own entry, which leaves the queue, or ""
-- ARGV[3]  the entry that is queued behind all others if the key goes to one of them, or ""
-- ARGV[4]  how long the queue lasts without a look, in ms
-- ARGV[5]  what an inbox's channel starts with, before the instance id
-- ARGV[6]  "1" if a message that reached nobody is known to have done so, as on a single server, else "0"
-- ARGV[7]  size of a block of fencing tokens
-- ARGV[8]  TTL of the counter in ms
-- ARGV[9]  the key, as messages name it
--
-- Returns {1 if the owner owned the key or else 0, how many others waited, 1 if one of them has the key now or else 0, the
-- place of ARGV[3] or ""}, or just the first if nobody waited. A key that is free is handed on as well (law 3): its
-- release may have come too early. Nobody waits in a queue that is a key of another type: then the lock is freed.

if ARGV[2] ~= "" then
  redis.pcall("zrem", KEYS[2], ARGV[2])
end
local owned = 0
if redis.call("getrange", KEYS[1], 0, #ARGV[1] - 1) == ARGV[1] then
  owned = 1
elseif redis.call("exists", KEYS[1]) == 1 then
  return 0 -- its holder's concern
end

local waited = redis.pcall("zcard", KEYS[2])
if waited == 0 or type(waited) == "table" then -- a table is an error
  redis.call("del", KEYS[1])
  return owned
end
local behind = waited
if owned == 1 and ARGV[3] ~= "" then
  behind = behind + 1
end
for i = 1, math.min(waited, 100) do -- bounded: whoever else is gone costs his offer
  local entry = redis.call("zrange", KEYS[2], 0, 0)[1]
  redis.call("zrem", KEYS[2], entry)
  behind = behind - 1
  local next = string.sub(entry, 7)
  local able, token, heard = true, "0", 0
  if string.sub(entry, 2, 2) == "f" then
    able, token = pcall(reserve, KEYS[3], ARGV[7], ARGV[8]) -- a counter of another type is for its own try to report
  end
  if able then
    redis.call("set", KEYS[1], next, "px", tonumber(string.sub(entry, 3, 6)))
    heard = redis.pcall("publish", ARGV[5] .. string.sub(next, 23, 44),
      "granted " .. string.sub(next, 1, 22) .. " " .. token .. " " .. string.format("%.0f", behind) .. " " .. ARGV[9])
  end
  -- One that only looks, or that could not be told, finds the key by itself. One that is known to be gone is passed over.
  if able and (heard ~= 0 or ARGV[6] ~= "1" or string.sub(entry, 1, 1) ~= "m" or i == 100) then
    local place = ""
    if owned == 1 and ARGV[3] ~= "" then
      place = back(KEYS[2])
      redis.call("zadd", KEYS[2], place, ARGV[3])
      redis.call("pexpire", KEYS[2], ARGV[4])
    end
    return {owned, waited, 1, place}
  end
end
redis.call("del", KEYS[1])
return {owned, waited, 0, ""}
