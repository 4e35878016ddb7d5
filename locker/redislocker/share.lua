-- share.lua is for scripts that ask whether a claim has a share of a key that a
-- crowd owns, see crowd.lua.

-- share returns the entry of a claim that is a member, and whether its share
-- has not ended. The claim is known by its entry, or for "" by its owner id
-- alone. share returns nil if there is no such member.
local function share(owner, entry)
  if entry ~= "" then
    local ends = redis.call("zscore", MEMBERS, entry)
    return ends and entry, ends and tonumber(ends) > clock()
  end
  local all = redis.call("zrange", MEMBERS, 0, -1, "withscores")
  for i = 1, #all, 2 do
    if string.sub(all[i], 7, 28) == owner then
      return all[i], tonumber(all[i + 1]) > clock()
    end
  end
end
