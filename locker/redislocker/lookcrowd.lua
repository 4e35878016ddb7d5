-- lookcrowd.lua goes on behind look.lua, crowd.lua and serve.lua. A crowd owns the
-- key, so a claim that wants to own it alone has to wait.

local n = settle()
if n > 0 then
  n = serve(n) -- a share may have ended
end
if n == 0 then
  if ARGV[2] ~= "" then
    redis.call("zrem", WAIT, ARGV[2])
    redis.call("zrem", DUE, ARGV[1])
  end
  return false
end
local place, new = "", false
if ARGV[2] ~= "" then
  place, new = line_up(ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5])
  if not place then
    return {ttl, value}
  end
end
if new and not ahead(ARGV[2], "0") then
  tell()
end
return {redis.call("pttl", LOCK), redis.call("getrange", LOCK, 0, 2047), place}
