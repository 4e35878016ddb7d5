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
