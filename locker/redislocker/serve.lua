-- serve.lua is for scripts that hand a key over to a crowd, or queue a claim at
-- one. It follows offer.lua and crowd.lua. WAIT, DUE, INBOXES and KEY stand in
-- front of it, see release.lua.

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
    local limit = limit_of(entry)
    if late then
      if not room(limit, n, #run, low) then
        break
      end
      run[#run + 1], low = {entry, late}, math.min(low, limit)
    end
    redis.call("zrem", WAIT, entry)
    seen = seen + 1
    if late and limit == 1 then
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
    for i, e in ipairs(run) do
      local alone = limit_of(e[1]) == 1
      if offer(e[1], e[2], n == 0 and seen >= 100 and i == #run, behind, n, not alone and put) then
        if alone then
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
  prolong(WAIT, rest + QUEUE_LIFE - LOOK_EVERY)
  prolong(DUE, rest + QUEUE_LIFE - LOOK_EVERY)
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
  for _, entry in ipairs(redis.call("zrange", MEMBERS, 0, 99)) do
    local inbox = string.sub(entry, 29, 50)
    if not told[inbox] then
      told[inbox] = true
      redis.pcall("publish", INBOXES .. inbox, "wanted " .. KEY)
    end
  end
end
