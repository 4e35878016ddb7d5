-- share.lua is for scripts that know a member of a crowd by its owner id alone.
-- MEMBERS in front of it is the name of the crowd, see crowd.lua.

-- share returns the entry of the member with this owner id, and whether its share
-- has not ended. It returns nil if there is no such member.
local function share(owner)
  local all = redis.call("zrange", MEMBERS, 0, -1, "withscores")
  for i = 1, #all, 2 do
    if string.sub(all[i], 7, 28) == owner then
      return all[i], tonumber(all[i + 1]) > clock()
    end
  end
end
