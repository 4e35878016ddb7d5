-- entry.lua begins every script that reads or queues entries; entry.go says what an entry is. In front of it stand VERSION,
-- LOOK_EVERY and QUEUE_LIFE, of entry.go and package locker, in ms.

-- version returns the version of an entry, one character.
local function version(entry)
  if string.sub(entry, 51, 55) ~= '{"v":' then
    return "1" -- before there were versions
  end
  return string.sub(entry, 56, 56)
end

-- micros returns the time in µs by the server's clock, the same one throughout a script.
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

-- keep sees to it that a key lasts for so many ms at least.
local function keep(key, ms)
  if redis.call("pttl", key) < ms then
    redis.call("pexpire", key, ms)
  end
end

