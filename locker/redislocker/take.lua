-- take.lua stands in front of look.lua. The claim takes the key if it is free.
-- Otherwise look.lua goes on. A claim that recalls finds the record of the key
-- first. A GET of the record travels in front of the script in the same
-- request, because a long value must not pass through Lua.
--
-- A mark counts as a record once its owner does not own the key (law 12). The
-- mark comes back through Lua, because it may have come to count after the GET.
--
-- KEYS[6]  record, of a claim that recalls
-- ARGV[9]  value of the lock
-- ARGV[10] TTL in ms
-- ARGV[11] "1" to reserve a block of tokens
--
-- Returns 1 if there is a record, the mark if that counts, {first token, or
-- "0"} if the claim owns the key now, or what look.lua returns.

do
  local owner = redis.call("getrange", KEYS[1], 0, #ARGV[1] - 1)
  local record = KEYS[6] and owner ~= ARGV[1] and redis.call("getrange", KEYS[6], 0, #ARGV[1]) or ""
  if record ~= "" and record ~= "*" .. owner then
    if ARGV[3] == "1" then
      redis.call("zrem", KEYS[2], ARGV[2])
      redis.call("zrem", KEYS[3], ARGV[1])
    end
    return string.sub(record, 1, 1) == "*" and redis.call("get", KEYS[6]) or 1
  end
  if owner == ARGV[1] or owner == "" and redis.call("exists", KEYS[1]) == 0 then
    if ARGV[2] ~= "" then
      redis.call("zrem", KEYS[2], ARGV[2])
      redis.call("zrem", KEYS[3], ARGV[1])
    end
    local token = "0"
    if ARGV[11] == "1" then
      token = reserve(KEYS[4], FENCE_BLOCK, COUNTER_LIFE)
    end
    redis.call("set", KEYS[1], ARGV[9], "px", ARGV[10])
    return {token}
  end
end
