-- fence.lua reserves a block of fencing tokens for the owner of a key.
--
-- KEYS[1]  lock
-- KEYS[2]  last token given
-- ARGV[1]  owner id
-- ARGV[2]  size of the block
-- ARGV[3]  TTL of the counter in ms
--
-- Returns the first token of the block as a string, or nil if the owner does not own the key.

if redis.call("getrange", KEYS[1], 0, #ARGV[1] - 1) ~= ARGV[1] then
  return false
end
return reserve(KEYS[2], ARGV[2], ARGV[3])
