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
