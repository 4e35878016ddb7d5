-- release.lua ends an owner's hold, and hands the key over to the first in the
-- queue, by handover.lua or releasecrowd.lua.
--
-- ARGV[1]  owner id
--
-- The other arguments have names, because their numbers differ behind keep.lua
-- and unmark.lua:
-- ARGV[2]  KEY: the key, as messages name it
-- ARGV[3]  OWN: the owner's own entry, which leaves the queue and the crowd,
--          or ""
-- ARGV[4]  NEXT: the entry that is queued behind all others if the key goes to
--          one of them, or ""
--
-- Two more stand in the text, because they never change for a locker:
-- INBOXES  start of the channel of an inbox, before the instance id
-- KNOWN    whether the server knows who hears a message, as a single one does
--
-- Returns {1 if the owner owned the key or otherwise 0, the number of other
-- waiters, 1 if another claim has the key now or otherwise 0, the place of
-- NEXT or ""}. Returns just the first if nobody waited, and no other claim
-- owns the key.
--
-- A free key is handed on as well (law 3), because its release may have come
-- too early. An entry of a newer version stays where it is, and the key becomes
-- free. The version is the fifth value then. If the queue is a key of another
-- type, nobody waits in it and the lock is freed.

if OWN ~= "" then
  redis.pcall("zrem", KEYS[2], OWN)
  redis.pcall("zrem", KEYS[3], ARGV[1])
end
local owned = 0
local value = redis.call("getrange", KEYS[1], 0, #ARGV[1] - 1)
local crowded = value == CROWD
if value == ARGV[1] then
  owned = 1
elseif not crowded and redis.call("exists", KEYS[1]) == 1 then
  return 0 -- its holder's concern
end

local waited = redis.pcall("zcard", KEYS[2])
if type(waited) == "table" then -- an error
  waited = 0
end
if waited == 0 and not crowded then
  redis.call("del", KEYS[1])
  return owned
end
