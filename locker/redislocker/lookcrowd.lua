-- lookcrowd.lua goes on behind look.lua. A crowd owns the key, so a claim that
-- wants to own it alone has to wait, see wait.lua.

local n, waits = settle(), ARGV[2] ~= ""
if n > 0 then
  n = serve(n, redis.call("zcard", WAIT), 0) -- a share may have ended
end
if n == 0 then
  if waits then
    redis.call("zrem", WAIT, ARGV[2])
    redis.call("zrem", DUE, ARGV[1])
  end
  return false
end
