-- late.lua is for scripts that ask whether the process of a claim in the queue
-- is there. DUE is the name of the dues, see look.lua.

-- overdue returns for how many ms a claim is overdue. If a release has queued
-- the claim and it has not looked since, its place is the time when it came.
local function overdue(owner, place)
  local now, due = clock(), place / 1000 + LOOK_EVERY
  if now > due then
    due = tonumber(redis.pcall("zscore", DUE, owner)) or due
  end
  return now - due
end
