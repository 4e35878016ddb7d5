-- entry.lua is for every script that reads or queues entries. entry.go
-- describes an entry. Constants stand in front of it, see consts in script.go.

-- version returns the version of an entry, one character, or "" if no locker
-- has made the entry.
local function version(entry)
  return string.match(entry, '^{"v":(.)', 51) or ""
end

-- limit_of returns the limit of an entry, 1 for a claim that owns its key
-- alone.
local function limit_of(entry)
  if string.sub(entry, -17, -9) == '"limit":"' then
    return tonumber(string.match(entry, "^%d%d%d%d%d%d", -8)) or 1
  end
  return 1
end

-- micros returns the time in µs by the server's clock, which is the same
-- throughout a script.
local started
local function micros()
  if not started then
    local time = redis.call("time")
    started = time[1] * 1000000 + time[2]
  end
  return started
end

-- clock returns the time in ms by the server's clock.
local function clock()
  return math.floor(micros() / 1000)
end
