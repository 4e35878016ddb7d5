-- crowd.lua is for scripts that meet a crowd: several claims that own a key at
-- once. LOCK and MEMBERS in front of it are the names of the key's entries.
--
-- The entry of a claim ends with its limit, see entry.go. A claim may own the
-- key if fewer own it than its own limit, and fewer than the limit of each
-- owner (law 9). room decides that, and settle drops shares that have ended.
--
-- While a crowd owns it, the lock is CROWD, 22 dashes and "limit NNNNNN". No
-- owner id begins with "*". Hence the lock is nobody's own, and held for plain
-- users of the name. The limit is the lowest of those that have joined. MEMBERS
-- is a sorted set: the entry of each member -> when its share ends, in ms by
-- the server's clock. Both keys end with the last share.

-- write makes the lock that of a crowd with this limit, for ms.
local function write(limit, ms)
  redis.call("set", LOCK, CROWD .. string.rep("-", 22) .. string.format("limit %06d", limit), "px", ms)
end

-- settle drops the members whose share has ended, lets the keys end with the
-- last share, and returns how many members are left. With none the key is free.
--
-- The clock of some servers goes on during a script. What ends meanwhile is
-- nobody else's, and is written again. room finds its limit.
function crowd.settle()
  local now = clock()
  while true do
    local first = redis.call("zrange", MEMBERS, 0, 0, "withscores")
    if not first[1] or tonumber(first[2]) > now then
      break
    end
    redis.call("zrem", MEMBERS, first[1])
  end
  local last = redis.call("zrange", MEMBERS, -1, -1, "withscores")[2]
  if not last then
    redis.call("del", LOCK)
    return 0
  end
  local left = tonumber(last) - now
  if redis.call("pexpire", LOCK, left) == 0 then
    write(1, left)
  end
  redis.call("pexpire", MEMBERS, left)
  return redis.call("zcard", MEMBERS)
end

-- room reports whether a claim of this limit may join n members, and extra ones
-- that will be members, of which the strictest allows low.
function crowd.room(limit, n, extra, low)
  local m = n + extra
  if m >= limit or m >= low then
    return false
  elseif n == 0 then
    return true
  end
  local lowest = tonumber(redis.call("getrange", LOCK, 50, 55)) or 1
  if m < lowest then
    return true
  end
  lowest = math.huge -- a member with that limit may have left
  for _, entry in ipairs(redis.call("zrange", MEMBERS, 0, -1)) do
    lowest = math.min(lowest, limit_of(entry))
  end
  write(lowest, math.max(redis.call("pttl", LOCK), 1))
  return m < lowest
end

-- add makes an entry a member for ms. settle must follow, because the keys must
-- last as long as the last share.
function crowd.add(entry, ms)
  redis.call("pexpire", MEMBERS, ms) -- otherwise the members may end before settle
  redis.call("zadd", MEMBERS, clock() + ms, entry)
end

-- put is add beside n members.
function crowd.put(entry, n, ms)
  local limit = limit_of(entry)
  if n == 0 then
    redis.call("del", MEMBERS) -- what is left of an earlier crowd
    write(limit, ms)
  elseif limit < (tonumber(redis.call("getrange", LOCK, 50, 55)) or math.huge) then
    write(limit, math.max(redis.call("pttl", LOCK), 1))
  end
  crowd.add(entry, ms)
end
