if redis.call("getrange", KEYS[1], 0, #ARGV[1] - 1) ~= ARGV[1] then
  return 0
end
return redis.call("pexpire", KEYS[1], ARGV[2])
