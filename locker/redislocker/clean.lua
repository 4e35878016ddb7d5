-- clean.lua frees a key by owner id alone, for a try that had no answer: nobody knows then what it stored.
--
-- KEYS[1]  lock
-- ARGV[1]  owner id
--
-- Returns 1, or 0 if the owner does not own the key.

if redis.call("getrange", KEYS[1], 0, #ARGV[1] - 1) ~= ARGV[1] then
  return 0
end
return redis.call("del", KEYS[1])
