local record = redis.call("getrange", KEYS[2], 0, ARGV[1])
if record ~= ARGV[2] or record == "*" .. redis.call("getrange", KEYS[1], 0, ARGV[1] - 1) then
  return 0
end
return redis.call("del", KEYS[2])
