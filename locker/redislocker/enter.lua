-- enter.lua makes a claim with a limit an owner of its key, beside others, or
-- finds the owner and queues the claim. It is for such claims what redislock and
-- look.lua are for others.
--
-- KEYS      as in look.lua
-- ARGV[1]   to ARGV[8] as in look.lua; ARGV[2] is always the claim's entry
-- ARGV[9]   "1" if it waits, or was queued before
-- ARGV[10]  TTL of its share in ms
--
-- Returns the first of its block of fencing tokens, "0" for none, if it is an
-- owner now. Otherwise returns the same as look.lua.

local entry, ms = ARGV[2], tonumber(ARGV[10])
local limit, token = limit_of(entry), "0"
local value = redis.call("getrange", LOCK, 0, 2047)

-- granted ends the script for a claim that is about to own the key.
local function granted(how)
  if string.sub(entry, 2, 2) == "f" then
    token = reserve(FENCE, FENCE_BLOCK, COUNTER_LIFE) -- first, because it may fail
  end
  redis.call("zrem", WAIT, entry)
  redis.call("zrem", DUE, ARGV[1])
  how()
  return token
end

local n = 0
if string.sub(value, 1, #CROWD) == CROWD then
  n = settle()
  if n > 0 then
    n = serve(n, redis.call("zcard", WAIT), 0) -- a share may have ended
  end
  if n > 0 and redis.call("zscore", MEMBERS, entry) then
    return granted(function()
      redis.call("zadd", MEMBERS, clock() + ms, entry)
      settle()
    end)
  end
elseif value ~= "" or redis.call("exists", LOCK) == 1 then
  n = -1
end

-- Law 8: a free key is anybody's. Law 14: others may be in front.
if n == 0 or n > 0 and room(limit, n, 0, NO_LIMIT) and not ahead(entry, ARGV[4]) then
  return granted(function()
    put(entry, n, ms)
    settle()
  end)
end

local waits = ARGV[9] == "1"
