if redis.call("getrange", KEYS[1], 0, #ARGV[1] - 1) ~= ARGV[1] then
  return 0
end
local record = redis.call("getrange", KEYS[2], 0, #ARGV[1])
if record ~= "" and record ~= "*" .. ARGV[1] then
  return redis.call("get", KEYS[2])
end
redis.call("set", KEYS[2], ARGV[2], "px", ARGV[3])
return 1
