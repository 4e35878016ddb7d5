-- recall.lua stands in front of look.lua, for a claim that recalls. It finds the
-- record of the key. Without one it takes a free key. Otherwise look.lua goes on.
-- A GET of the record travels in front of the script in the same request, because
-- a long value must not pass through Lua.
--
-- A mark becomes a record when its owner loses the key (law 20). So a GET may have
-- read a mark that has made way for a record since. A record that is no longer
-- than a mark comes back through Lua.
--
-- KEYS[1] to KEYS[5] and ARGV[1] to ARGV[8] are those of look.lua.
-- KEYS[6]  record
-- ARGV[9]  value of the lock
-- ARGV[10] TTL in ms
-- ARGV[11] "1" to reserve a block of tokens
-- ARGV[12] max length of a mark
--
-- Returns the record if it is as short as a mark, 1 if it is longer, {first token,
-- or "0"} if the claim owns the key now, or what look.lua returns.

do
  local owner = redis.call("getrange", KEYS[1], 0, #ARGV[1] - 1)
  if owner ~= ARGV[1] then
    local kept = redis.call("getrange", KEYS[6], 0, #ARGV[1] + ARGV[12])
    if kept ~= "" and string.sub(kept, 1, #ARGV[1]) ~= owner then
      if ARGV[3] == "1" then
        redis.call("zrem", KEYS[2], ARGV[2])
        redis.call("zrem", KEYS[3], ARGV[1])
      end
      return #kept > #ARGV[1] + ARGV[12] and 1 or string.sub(kept, #ARGV[1] + 1)
    end
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
