-- entry.lua is for every script that reads or queues entries. entry.go
-- describes an entry. Constants stand in front of it, see consts in script.go.

-- version returns the version of an entry, one character. It returns "" if no
-- locker has made the entry.
local function version(entry)
  return string.match(entry, '^{"v":(.)', 51) or ""
end

-- micros returns the time in µs by the server's clock. It is the same
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

-- prolong makes a key last for at least this many ms.
local function prolong(key, ms)
  if redis.call("pttl", key) < ms then
    redis.call("pexpire", key, ms)
  end
end

