-- Stands in front of a script of the caller, which runs only if no higher token was seen.
--
-- KEYS[#KEYS]     -> the fence: the highest token so far
-- ARGV[#ARGV - 1] -> the token
-- ARGV[#ARGV]     -> how long to keep it, in ms; '0': for good
-- Returns the error LATEWRITE <highest token> for a lower one, else what the caller's script returns. That one finds its
-- own KEYS and ARGV alone.
--
-- Tokens are compared as text, by length and then by digits: a Lua number is exact up to 2^53 only.
do
  local fence = table.remove(KEYS)
  local life = table.remove(ARGV)
  local token = table.remove(ARGV)
  local newest = redis.call('GET', fence) or '0'
  if not newest:find('^%d+$') then
    return redis.error_reply('ERR the key of the fence holds something else')
  end
  if #token < #newest or (#token == #newest and token < newest) then
    return redis.error_reply('LATEWRITE ' .. newest)
  end
  if life == '0' then
    redis.call('SET', fence, token)
  else
    redis.call('SET', fence, token, 'PX', life)
  end
end
