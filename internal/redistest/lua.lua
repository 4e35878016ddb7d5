-- lua.lua runs scripts of Redis in a Lua of any version from 5.1 on, with the
-- numbers that Dragonfly gives them in 5.4. Requests come from stdin, as arrays
-- in the protocol of Redis: the script, the number of keys, keys and arguments.
-- A command of the script goes to stdout as an array, and its answer comes from
-- stdin. The result goes to stdout behind the line "+done".

local integers = math.type -- nil before 5.3, where all numbers are floats

local function read()
  local line = io.read("*l")
  if not line then
    os.exit(0)
  end
  local kind, text = string.sub(line, 1, 1), string.gsub(string.sub(line, 2), "\r", "")
  if kind == "+" then
    return {ok = text}
  elseif kind == "-" then
    return {err = text}
  elseif kind == ":" then
    return tonumber(text)
  elseif text == "-1" then
    return false
  elseif kind == "$" then
    local size = tonumber(text)
    local bulk = size > 0 and io.read(size) or ""
    io.read(2)
    return bulk
  end
  local list = {}
  for i = 1, tonumber(text) do
    list[i] = read()
  end
  return list
end

local function bulk(text) return "$" .. #text .. "\r\n" .. text .. "\r\n" end

-- argument returns what Dragonfly sends for a value: a text that reads as a
-- number is written anew too.
local function argument(v)
  local n = tonumber(v)
  if not n and type(v) ~= "string" then
    error("arguments must be strings or integers")
  elseif integers and integers(v) == "integer" then
    return string.format("%d", v)
  end
  return n and string.format("%.17g", n) or v
end

-- scores makes scores numbers, which they are in Dragonfly. In Redis they are
-- strings.
local function scores(command, answer)
  if not integers then
    return answer
  elseif command[1] == "zscore" and answer then
    return tonumber(answer) + 0.0
  elseif command[#command] == "withscores" then
    for i = 2, #answer, 2 do
      answer[i] = tonumber(answer[i]) + 0.0
    end
  end
  return answer
end

local function call(...)
  local command, text = {...}, {}
  for i, v in ipairs(command) do
    text[i] = bulk(argument(v))
  end
  io.write("*", #text, "\r\n", table.concat(text))
  io.flush()
  local answer = read()
  return type(answer) == "table" and answer.err and answer or scores(command, answer)
end

local function result(v)
  if type(v) == "string" then
    return bulk(v)
  elseif type(v) == "number" then
    if not integers then
      return string.format(":%.0f\r\n", v < 0 and math.ceil(v) or math.floor(v))
    elseif integers(v) == "integer" then
      return string.format(":%d\r\n", v)
    end
    return bulk(string.format("%.17g", v)) -- a double
  elseif v == true then
    return ":1\r\n"
  elseif type(v) ~= "table" then
    return "$-1\r\n"
  elseif v.err then
    return "-" .. v.err .. "\r\n"
  elseif v.ok then
    return "+" .. v.ok .. "\r\n"
  end
  local parts = {}
  for i, one in ipairs(v) do
    parts[i] = result(one)
  end
  return "*" .. #parts .. "\r\n" .. table.concat(parts)
end

-- sandbox returns the globals that Redis and Dragonfly have in common, without
-- libraries that Lua has not. Any other is an error.
local function sandbox()
  local env = {string = string, math = math, unpack = table.unpack or unpack}
  env.table = {concat = table.concat, insert = table.insert, remove = table.remove, sort = table.sort}
  for _, name in ipairs({"assert", "error", "ipairs", "next", "pairs", "pcall", "select", "tonumber", "tostring",
    "type"}) do
    env[name] = _G[name]
  end
  env.redis = {
    error_reply = function(text) return {err = text} end,
    status_reply = function(text) return {ok = text} end,
    pcall = call,
    call = function(...)
      local answer = call(...)
      if type(answer) == "table" and answer.err then
        error(answer.err, 0)
      end
      return answer
    end,
  }
  local function refuse(_, name) error("the global " .. tostring(name), 2) end
  return setmetatable(env, {__index = refuse, __newindex = refuse})
end

local function compile(text, env)
  text = "return function()\n" .. text .. "\nend"
  if setfenv then
    return setfenv(assert(loadstring(text)), env)()
  end
  return assert(load(text, "script", "t", env))()
end

io.stdout:setvbuf("full")
while true do
  local request, env = read(), sandbox()
  local keys, argv = {}, {}
  for i = 3, #request do
    local n = i - 2
    if n <= tonumber(request[2]) then
      keys[n] = request[i]
    else
      argv[n - tonumber(request[2])] = request[i]
    end
  end
  rawset(env, "KEYS", keys)
  rawset(env, "ARGV", argv)
  local ok, v = pcall(function() return compile(request[1], env)() end)
  io.write("+done\r\n", ok and result(v) or "-ERR " .. string.gsub(tostring(v), "\n", " ") .. "\r\n")
  io.flush()
end
