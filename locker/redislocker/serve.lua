-- serve.lua is for scripts that hand a key over to a crowd, or queue a claim at
-- one. It follows late.lua and crowd.lua. WAIT, DUE, FENCE, INBOXES, KNOWN and KEY
-- stand in front of it, see release.lua.

-- lateness is overdue for an entry. Version 1 does not tell.
local function lateness(entry, place)
  return version(entry) == "1" and 0 or overdue(string.sub(entry, 7, 28), tonumber(place))
end

-- offer_share offers the key to the claim of an entry, beside n members. It
-- reports whether the claim's process may be there to have it. behind is how
-- many wait behind.
local function offer_share(entry, late, n, behind)
  local value, short, token = string.sub(entry, 7), tonumber(string.sub(entry, 3, 6)), "0"
  local told, ms = string.find(entry, "^[mj]") ~= nil or late < -LOOK_EVERY - 1, short
  if KNOWN and late <= LATE then
    ms = tonumber(string.match(entry, '"offer":(%d+)', 57)) or short
  end
  if string.sub(entry, 2, 2) == "f" then
    local able
    able, token = pcall(reserve, FENCE, FENCE_BLOCK, COUNTER_LIFE)
    if not able then
      return false -- a counter of another type is for its own try to report
    end
  end
  local word = "offered " .. string.format("%.0f", ms) .. " "
  if version(entry) == "1" then
    word = "granted "
  end
  local heard = redis.pcall("publish", INBOXES .. string.sub(value, 23, 44),
    word .. string.sub(value, 1, 22) .. " " .. token .. " " .. string.format("%.0f", behind) .. " " .. KEY)
  if KNOWN and not (type(heard) == "number" and heard > 0) then
    if late > LATE or heard == 0 and told then
      return false
    end
    ms = short -- one that only looks finds its share by itself
  end
  if limit_of(entry) == 1 then
    redis.call("set", LOCK, value, "px", ms)
  else
    put(entry, n, ms)
  end
  return true
end

-- take takes the entries out of the front of the queue that may own the key
-- together with n members. It returns them, each with how late it is, how many
-- entries were seen with those before, and the version of a newer entry in front
-- if there is one. It drops the claims that are gone.
local function take(n, seen)
  local run, low = {}, NO_LIMIT
  while seen < 100 do
    local first = redis.call("zrange", WAIT, 0, 0, "withscores")
    local entry = first[1]
    if not entry then
      break
    end
    if version(entry) > VERSION then
      return run, seen, version(entry)
    end
    local late = lateness(entry, first[2])
    local gone = late > QUEUE_LIFE - LOOK_EVERY or late > LATE and not KNOWN
    local limit = limit_of(entry)
    if not gone then
      if not room(limit, n, #run, low) then
        break
      end
      run[#run + 1], low = {entry, late}, math.min(low, limit)
    end
    redis.call("zrem", WAIT, entry)
    seen = seen + 1
    if not gone and limit == 1 then
      break
    end
  end
  return run, seen
end

-- serve gives what is free of the key to those who wait, from the front of the
-- queue, until one of them may not have it. n claims own the key now. serve
-- returns how many do then, -1 for one that owns it alone, and the version of a
-- newer entry in front if there is one. It is bounded: the next that is dead
-- costs an offer.
local function serve(n)
  local seen, new, run, newer = 0, 0, nil, nil
  repeat
    run, seen, newer = take(n, seen)
    local behind = redis.call("zcard", WAIT)
    for _, e in ipairs(run) do
      if offer_share(e[1], e[2], n, behind) then
        if limit_of(e[1]) == 1 then
          return -1
        end
        n, new = n + 1, new + 1
      end
    end
  until #run == 0 or seen >= 100
  if new > 0 then
    settle()
  end
  return n, newer
end

-- line_up sees to a claim in the queue, as look.lua does. It returns the claim's
-- place, "" if the claim is not queued, or nil behind an entry of a newer version,
-- and whether the claim is new in the queue.
local function line_up(owner, entry, before, place, rest)
  local score, new = redis.call("zscore", WAIT, entry), false
  if score then
    place = string.format("%.0f", tonumber(score))
  elseif before == "1" then
    return ""
  else
    local last = back(WAIT)
    if not last then
      return nil
    end
    if place == "0" then
      place = last
    end
    redis.call("zadd", WAIT, place, entry)
    new = true
  end
  local now = clock()
  local oldest = redis.call("zrange", DUE, 0, 0, "withscores")
  if oldest[1] and now - tonumber(oldest[2]) > QUEUE_LIFE then
    redis.call("zrem", DUE, oldest[1])
  end
  redis.call("zadd", DUE, now + rest, owner)
  keep(WAIT, rest + QUEUE_LIFE - LOOK_EVERY)
  keep(DUE, rest + QUEUE_LIFE - LOOK_EVERY)
  return place, new
end

-- ahead reports whether a claim that was seen lately stands in front of this
-- entry, or of its place if it is not in the queue (law 14).
local function ahead(entry, place)
  for i = 0, 99 do
    local other = redis.call("zrange", WAIT, i, i, "withscores")
    if not other[1] or other[1] == entry or place ~= "0" and tonumber(place) < tonumber(other[2]) then
      return false
    end
    if overdue(string.sub(other[1], 7, 28), tonumber(other[2])) < LOOK_EVERY then
      return true
    end
  end
  return true
end

-- tell tells the processes of the members that somebody waits, each once.
local function tell()
  local told = {}
  for _, entry in ipairs(redis.call("zrange", CROWD, 0, 99)) do
    local inbox = string.sub(entry, 29, 50)
    if not told[inbox] then
      told[inbox] = true
      redis.pcall("publish", INBOXES .. inbox, "wanted " .. KEY)
    end
  end
end
