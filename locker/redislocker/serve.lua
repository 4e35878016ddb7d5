-- serve.lua is for scripts that hand a key over. It follows offer.lua.

-- take takes the entries out of the front of the queue that may own the key
-- together with n members, until it has seen most entries, with those seen
-- before. It drops the claims that are gone. take returns a list of {entry,
-- limit, how late it is}, how many entries were seen, and the version of a newer
-- entry in front if there is one. With alone, the list is nil if a claim with a
-- limit is in front.
local function take(n, seen, most, alone)
  local run, low = {}, NO_LIMIT
  while seen < most do
    local first = redis.call("zrange", WAIT, 0, 0, "withscores")
    local entry = first[1]
    if version(entry) > VERSION then
      return run, seen, version(entry)
    end
    local limit = limit_of(entry)
    if alone and limit ~= 1 then
      return nil, seen
    end
    local late = lateness(entry, first[2])
    if late then
      if not room(limit, n, #run, low) then
        break
      end
      run[#run + 1], low = {entry, limit, late}, math.min(low, limit)
    end
    redis.call("zrem", WAIT, entry) -- a later look drops what it is due
    seen = seen + 1
    if late and limit == 1 then
      break
    end
  end
  return run, seen
end

-- serve gives what is free of the key to those who wait, from the front of the
-- queue, until one of them may not have it. n claims own the key now, waiting
-- ones are in the queue, and more come behind them. With alone, it stops in front
-- of a claim with a limit.
--
-- serve returns how many own the key then, -1 for one that owns it alone, or nil
-- in front of a claim with a limit. Next is how many are left in the queue, and
-- the version of a newer entry in front if there is one. serve is bounded: the
-- hundredth claim gets the key even if it is most likely dead, which costs a
-- short offer.
local function serve(n, waiting, more, alone)
  local most, seen, joined, run, newer = math.min(waiting, 100), 0, false, nil, nil
  repeat
    run, seen, newer = take(n, seen, most, alone)
    if not run then
      return nil, waiting - seen
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
    settle()
  end
  return n, waiting - seen, newer
end

