-- takeshare.lua makes a claim with a limit an owner of its key, beside others,
-- or finds the owner and queues the claim. Such claims have this script in
-- place of redislock and look.lua. ARGV[2] is always the claim's entry.
--
-- ARGV[9]  "1" if the claim waits, or was queued before
-- ARGV[10] TTL of its share in ms
--
-- Returns the first of its block of fencing tokens, "0" for none, if it is an
-- owner now. Otherwise returns {remaining TTL in ms or -1 for none, the start
-- of the holder's value, the claim's place or "" if it is not in the queue}.
-- The claim is not queued behind an entry of a newer version. In that case the
-- place is nil, and the rest says nothing.

local entry, ms = ARGV[2], tonumber(ARGV[10])
local limit, token = limit_of(entry), "0"
local value = redis.call("getrange", KEYS[1], 0, 2047)

-- granted ends the script for a claim that is about to own the key.
local function granted(how)
  if string.sub(entry, 2, 2) == "f" then
    token = reserve(KEYS[4], FENCE_BLOCK, COUNTER_LIFE) -- first, because it may fail
  end
  redis.call("zrem", KEYS[2], entry)
  redis.call("zrem", KEYS[3], ARGV[1])
  how()
  return token
end

local n = 0
if string.sub(value, 1, #CROWD) == CROWD then
  n = crowd.settle()
  if n > 0 then
    n = serve(n, redis.call("zcard", KEYS[2]), 0) -- a share may have ended
  end
  if n > 0 and redis.call("zscore", KEYS[5], entry) then
    return granted(function()
      crowd.add(entry, ms)
      crowd.settle()
    end)
  end
elseif value ~= "" or redis.call("exists", KEYS[1]) == 1 then
  n = -1
end

-- Law 7: a free key is anybody's. Law 10: others may be in front.
if n == 0 or n > 0 and crowd.room(limit, n, 0, math.huge) and not ahead(entry, ARGV[4]) then
  return granted(function()
    crowd.put(entry, n, ms)
    crowd.settle()
  end)
end

local waits = ARGV[9] == "1"
