-- take.lua stands in front of look.lua. The claim takes the key if it is free.
-- Otherwise look.lua goes on. A claim that recalls finds the record of the key
-- first. A GET of the record travels in front of the script in the same
-- request, because a long value must not pass through Lua.
--
-- A mark counts as a record once its owner does not own the key (law 12). The
-- mark comes back through Lua, because it may have come to count after the GET.
--
-- KEYS[6]  record, of a claim that recalls
-- ARGV[9]  value of the lock
-- ARGV[10] TTL in ms
-- ARGV[11] "1" to reserve a block of tokens
--
-- Returns 1 if there is a record, the mark if that counts, {first token, or
-- "0"} if the claim owns the key now, or what look.lua returns.

-- queue.lua is for every script that queues a claim, or hands a key over.
--
-- KEYS[1]  lock
-- KEYS[2]  wait queue: sorted set of entry -> place, see entry.go
-- KEYS[3]  dues: sorted set of owner id -> when its claim must be seen again,
--          in ms by the server's clock
-- KEYS[4]  last fencing token given
-- KEYS[5]  members of a crowd, see crowd.lua

-- lineup.lua is for every script by which a claim asks for its key.
--
-- ARGV[1]  owner id
-- ARGV[2]  the claim's entry, or "" if it will not wait
-- ARGV[3]  "1" if it was queued before. A claim that is not there any more was
--          granted, and must not come back (law 2)
-- ARGV[4]  its place, or "0" for the back of the queue
-- ARGV[5]  max ms until the next look at it: LOOK_EVERY, or the rest that it is
--          granted
-- ARGV[6]  INBOXES: start of the channel of an inbox, before the instance id
-- ARGV[7]  message for the owner's inbox, if the claim is new in the queue, or
--          the owner lingers: "wanted " and KEY
-- ARGV[8]  KNOWN: "1" if the server knows who hears a message, as a single
--          server does

local VERSION, LATE, LOOK_EVERY, QUEUE_LIFE, FENCE_BLOCK, COUNTER_LIFE, CROWD = "1", 100, 500, 2000, 64, 1200000, "*guard:several-own-it*"

-- tokens.lua is for every script that reserves fencing tokens.

-- reserve reserves a block of tokens and returns the first of them, as a
-- string. The block begins at the server's clock in microseconds. If that is
-- not greater than the last token given, the block begins at the next number.
-- Tokens rise even where the counter was lost, as long as no more of them are
-- reserved than microseconds pass. A block of 64 then outlasts any two
-- requests.
--
-- The counter lasts for life ms beyond the moment when the clock has passed its
-- last token. The clock may step back by as much. With a floor, no token is
-- below it.
--
-- A counter that is no number counts as lost. Beyond 2^53 numbers are not
-- exact, and no locker writes such a counter. The error about such a counter,
-- or about one of another type, begins with COUNTER, because it says nothing
-- about the lock.
local function reserve(key, block, life, floor)
  local time = redis.call("time")
  local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
  local last = redis.pcall("get", key)
  if type(last) == "table" then -- an error
    error(string.find(last.err, "WRONGTYPE", 1, true) and "COUNTER " .. last.err or last.err, 0)
  end
  last = tonumber(last or 0) or 0
  local first = math.max(now, last + 1, tonumber(floor or 0))
  last = first + tonumber(block) - 1
  if not (last < 9007199254740992) then
    error("COUNTER the last fencing token is no number below 2^53", 0)
  end
  redis.call("set", key, string.format("%.0f", last), "px", string.format("%.0f", tonumber(life) + (last - now) / 1000))
  return string.format("%.0f", first)
end

do
  local owner = redis.call("getrange", KEYS[1], 0, #ARGV[1] - 1)
  local record = KEYS[6] and owner ~= ARGV[1] and redis.call("getrange", KEYS[6], 0, #ARGV[1]) or ""
  if record ~= "" and record ~= "*" .. owner then
    if ARGV[3] == "1" then
      redis.call("zrem", KEYS[2], ARGV[2])
      redis.call("zrem", KEYS[3], ARGV[1])
    end
    return string.sub(record, 1, 1) == "*" and redis.call("get", KEYS[6]) or 1
  end
  if owner == ARGV[1] or owner == "" and redis.call("exists", KEYS[1]) == 0 then
    if ARGV[2] ~= "" then
      redis.call("zrem", KEYS[2], ARGV[2])
      redis.call("zrem", KEYS[3], ARGV[1])
    end
    local token = "0"
    if ARGV[11] == "1" then
      token = reserve(KEYS[4], FENCE_BLOCK, COUNTER_LIFE)
    end
    redis.call("set", KEYS[1], ARGV[9], "px", ARGV[10])
    return {token}
  end
end

-- entry.lua is for every script that reads or queues entries. entry.go
-- describes an entry. Constants stand in front of it, see consts in script.go.

-- version returns the version of an entry, one character, or "" if no locker
-- has made the entry.
local function version(entry)
  return string.match(entry, '^{"v":(.)', 51) or ""
end

-- limit_of returns the limit of an entry, 1 for a claim that owns its key
-- alone.
local function limit_of(entry)
  if string.sub(entry, -17, -9) == '"limit":"' then
    return tonumber(string.match(entry, "^%d%d%d%d%d%d", -8)) or 1
  end
  return 1
end

-- micros returns the time in µs by the server's clock, which is the same
-- throughout a script.
local started
local function micros()
  if not started then
    local time = redis.call("time")
    started = time[1] * 1000000 + time[2]
  end
  return started
end

-- clock returns the time in ms by the server's clock.
local function clock()
  return math.floor(micros() / 1000)
end

-- enqueue puts an entry in the queue and returns its place, as a string. A nil
-- place is the one behind all others: the time in µs by the server's clock, or
-- the next number if that is not greater than the last place, as when the clock
-- was set back. empty says that no entry is in the queue. enqueue returns nil
-- if a newer version has queued the last entry.
local function enqueue(entry, place, empty)
  local last = empty and {} or redis.call("zrange", KEYS[2], -1, -1, "withscores")
  if last[1] and version(last[1]) > VERSION then
    return nil
  end
  place = place or string.format("%.0f", math.max(micros(), (last[2] or 0) + 1))
  redis.call("zadd", KEYS[2], place, entry)
  return place
end

-- line_up queues the claim behind the owner with this value, unless the claim
-- was queued before, and notes when it must be seen again. line_up returns the
-- claim's place, "" if the claim was queued before and is not there any more, or
-- nil behind an entry of a newer version. The second result is whether the
-- owner's process must be told (law 4).
local function line_up(value)
  local place, tell = redis.call("zscore", KEYS[2], ARGV[2]), false
  if place then
    place = string.format("%.0f", tonumber(place))
    tell = string.find(value, ',"lingers":true', 45, true)
  elseif ARGV[3] == "1" then
    return "", false
  else
    place, tell = enqueue(ARGV[2], ARGV[4] ~= "0" and ARGV[4] or nil), true
    if not place then
      return nil
    end
  end
  local now = clock()
  local oldest = redis.call("zrange", KEYS[3], 0, 0, "withscores")
  if oldest[1] and now - tonumber(oldest[2]) > QUEUE_LIFE then
    redis.call("zrem", KEYS[3], oldest[1]) -- most likely of a claim that a release took out of the queue
  end
  redis.call("zadd", KEYS[3], now + ARGV[5], ARGV[1])
  local life = ARGV[5] + QUEUE_LIFE - LOOK_EVERY
  for i = 2, 3 do
    if redis.call("pttl", KEYS[i]) < life then
      redis.call("pexpire", KEYS[i], life)
    end
  end
  return place, tell
end

-- look.lua finds the holder of a key, and queues a claim that will wait for it.
-- The claim wants to own the key alone. If a crowd owns it, lookcrowd.lua goes
-- on.
--
-- Returns nil if the key is free or the claim's own. The claim is out of the
-- queue then. Otherwise returns {remaining TTL in ms or -1 for none, the start
-- of the holder's value, the claim's place or "" if it is not in the queue}.
-- The claim is not queued behind an entry of a newer version. In that case the
-- place is nil, and the rest says nothing.

local ttl = redis.call("pttl", KEYS[1])
local value = redis.call("getrange", KEYS[1], 0, 2047)
if string.sub(value, 1, #CROWD) ~= CROWD then
  if ttl == -2 or string.sub(value, 1, #ARGV[1]) == ARGV[1] then
    if ARGV[2] ~= "" then
      redis.call("zrem", KEYS[2], ARGV[2])
      redis.call("zrem", KEYS[3], ARGV[1])
    end
    return false
  end
  if ARGV[2] == "" then
    return {ttl, value, ""}
  end

  local place, tell = line_up(value)
  if not place then
    return {ttl, value}
  end
  if tell then
    redis.pcall("publish", ARGV[6] .. string.sub(value, 23, 44), ARGV[7])
  end
  return {ttl, value, place}
end
local INBOXES, KNOWN, KEY = ARGV[6], ARGV[8] == "1", string.sub(ARGV[7], 8)
local crowd = {} -- crowd.lua fills it
local LOCK, MEMBERS = KEYS[1], KEYS[5]

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

-- offer.lua is for scripts that hand a key over. INBOXES, KNOWN and KEY stand
-- in front of it.
--
-- An offer is final: once a message has told of it, nothing takes it back or
-- cuts it short. A message may reach a process that this server does not count,
-- because messages travel to the replicas too, and a subscription may be there.
-- Hence the script asks who would hear before it makes an offer.

-- overdue returns for how many ms a claim is overdue. If a release has queued
-- the claim and it has not looked since, its place is the time when it came. A
-- place may be ahead of a clock that was set back.
local function overdue(owner, place)
  local now, due = clock(), place / 1000 + LOOK_EVERY
  if now > due or due > now + LOOK_EVERY + 1 then
    due = tonumber(redis.pcall("zscore", KEYS[3], owner)) or math.min(due, now + LOOK_EVERY)
  end
  return now - due
end

-- lateness returns for how many ms the claim of an entry is overdue, or nil if
-- the claim is gone: it was not seen for QUEUE_LIFE, or no locker has made the
-- entry.
local function lateness(entry, place)
  local made = string.find(entry, "^[mlji][f-]%d%d%d%d") and string.sub(entry, 3, 6) ~= "0000"
  if version(entry) ~= VERSION or not made then
    return nil
  end
  local late = overdue(string.sub(entry, 7, 28), tonumber(place))
  return late <= QUEUE_LIFE - LOOK_EVERY and late or nil
end

-- length returns for how many ms the key is offered to the claim of an entry,
-- or nil if the claim is passed over, which the last one that may be asked is
-- not.
local function length(entry, inbox, late, last)
  local short = tonumber(string.sub(entry, 3, 6))
  local hear = KNOWN and redis.pcall("pubsub", "numsub", inbox)
  hear = hear and hear[2] -- nil if the server does not tell
  if hear and hear > 0 then
    return late <= LATE and tonumber(string.match(entry, '^,"offer":([1-9]%d%d%d?)%D', 57)) or short
  end
  -- Only a claim that hears may rest beyond LOOK_EVERY. A place has fractions
  -- of a ms, which the clock has not.
  local told = string.find(entry, "^[mj]") or late < -LOOK_EVERY - 1
  if not last and (late > LATE or hear and told) then
    return nil -- most likely dead
  end
  return short -- one that only looks finds the key by itself
end

-- offer makes the claim of an entry an owner of the key, beside n members or
-- alone, and tells its process. late is what lateness returned. behind is how
-- many wait behind the claim. offer returns false if the claim does not get the
-- key.
local function offer(entry, limit, late, last, behind, n)
  local inbox, token = INBOXES .. string.sub(entry, 29, 50), "0"
  local ms = length(entry, inbox, late, last)
  if not ms then
    return false
  end
  if string.sub(entry, 2, 2) == "f" then
    local able
    able, token = pcall(reserve, KEYS[4], FENCE_BLOCK, COUNTER_LIFE)
    if not able then
      return false -- a counter that cannot be used is for the claim's own try to report
    end
  end
  if limit == 1 then
    redis.call("set", KEYS[1], string.sub(entry, 7), "px", ms)
  else
    crowd.put(entry, n, ms)
  end
  redis.pcall("publish", inbox, "offered " .. string.format("%.0f", ms) .. " " .. string.sub(entry, 7, 28) .. " " ..
    token .. " " .. string.format("%.0f", behind) .. " " .. KEY)
  return true
end

-- serve.lua is for scripts that hand a key over. It follows offer.lua.

-- serve gives what is free of the key to those who wait, from the front of the
-- queue, until one of them may not have it. n claims own the key now, waiting
-- ones are in the queue, and more come behind them. serve drops the claims that
-- are gone. With alone, serve stops in front of a claim with a limit.
--
-- serve returns how many own the key then, -1 for one that owns it alone, or
-- nil in front of a claim with a limit. The second result is how many are left
-- in the queue, and the third the version of a newer entry in front if there is
-- one.
--
-- serve asks a hundred claims at most. The last of them gets a key that is free
-- even if that claim is most likely dead, which costs a short offer.
local function serve(n, waiting, more, alone)
  local most, seen, joined, newer = math.min(waiting, 100), 0, false, nil
  repeat
    local run, low = {}, math.huge -- the claims that may own the key together, and the limit of the strictest
    while seen < most do
      local first = redis.call("zrange", KEYS[2], 0, 0, "withscores")
      local entry = first[1]
      if version(entry) > VERSION then
        newer = version(entry)
        break
      end
      local limit = limit_of(entry)
      if alone and limit ~= 1 then
        return nil, waiting - seen
      end
      local late = lateness(entry, first[2])
      if late then
        if n + #run > 0 and not crowd.room(limit, n, #run, low) then
          break
        end
        run[#run + 1], low = {entry, limit, late}, math.min(low, limit)
      end
      redis.call("zrem", KEYS[2], entry) -- a later look drops what it is due
      seen = seen + 1
      if late and limit == 1 then
        break
      end
    end
    for i, e in ipairs(run) do
      local last = n == 0 and seen == 100 and i == #run
      if offer(e[1], e[2], e[3], last, waiting - seen + more, n) then
        if e[2] == 1 then
          return -1, waiting - seen
        end
        n, joined = n + 1, true
      end
    end
  until #run == 0 or newer or seen == most
  if joined then
    crowd.settle()
  end
  return n, waiting - seen, newer
end

-- ahead.lua is for scripts by which a claim asks for a key that a crowd may
-- own.

-- ahead reports whether a claim that was seen lately stands in front of this
-- entry, or of its place if it is not in the queue (law 10).
local function ahead(entry, place)
  for i = 0, 99 do
    local other = redis.call("zrange", KEYS[2], i, i, "withscores")
    if not other[1] or other[1] == entry or place ~= "0" and tonumber(place) < tonumber(other[2]) then
      return false
    end
    if overdue(string.sub(other[1], 7, 28), tonumber(other[2])) < LOOK_EVERY then
      return true
    end
  end
  return true
end

-- lookcrowd.lua goes on behind look.lua. A crowd owns the key, so a claim that
-- wants to own it alone has to wait, see wait.lua.

local n, waits = crowd.settle(), ARGV[2] ~= ""
if n > 0 then
  n = serve(n, redis.call("zcard", KEYS[2]), 0) -- a share may have ended
end
if n == 0 then
  if waits then
    redis.call("zrem", KEYS[2], ARGV[2])
    redis.call("zrem", KEYS[3], ARGV[1])
  end
  return false
end

-- wait.lua goes on behind enter.lua and lookcrowd.lua. n members own the key,
-- or for -1 a claim that owns it alone. The claim is queued if it waits, and
-- the owners' processes are told, each once, that somebody waits.

local place, tell = "", false
if waits then
  place, tell = line_up(value)
  if not place then
    return {0, value}
  end
end
if tell and n < 0 then
  redis.pcall("publish", INBOXES .. string.sub(value, 23, 44), ARGV[7])
elseif tell and not ahead(ARGV[2], "0") then
  local told = {}
  for _, member in ipairs(redis.call("zrange", KEYS[5], 0, 99)) do
    local inbox = string.sub(member, 29, 50)
    if not told[inbox] then
      told[inbox] = true
      redis.pcall("publish", INBOXES .. inbox, ARGV[7])
    end
  end
end
return {redis.call("pttl", KEYS[1]), redis.call("getrange", KEYS[1], 0, 2047), place}
