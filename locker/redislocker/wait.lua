-- wait.lua goes on behind takeshare.lua and lookcrowd.lua. n members own the
-- key, or for -1 a claim that owns it alone. The claim is queued if it waits,
-- and the owners' processes are told, each once, that somebody waits.

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
