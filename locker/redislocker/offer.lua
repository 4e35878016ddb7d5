-- offer.lua is for scripts that hand a key over. INBOXES, KNOWN and KEY stand
-- in front of it.
--
-- An offer is final: once a message has told of it, nothing takes it back or
-- cuts it short. A message may reach a process that this server does not count,
-- because messages travel to the replicas too, and a subscription may be there.
-- Hence the script asks who would hear before it makes an offer.

-- overdue returns for how many ms a claim is overdue. If a release has queued
-- the claim and it has not looked since, its place is the time when it came. A
-- place may be ahead of a clock that was set back.
local function overdue(owner, place)
  local now, due = clock(), place / 1000 + LOOK_EVERY
  if now > due or due > now + LOOK_EVERY + 1 then
    due = tonumber(redis.pcall("zscore", KEYS[3], owner)) or math.min(due, now + LOOK_EVERY)
  end
  return now - due
end

-- lateness returns for how many ms the claim of an entry is overdue, or nil if
-- the claim is gone: it was not seen for QUEUE_LIFE, or no locker has made the
-- entry.
local function lateness(entry, place)
  local made = string.find(entry, "^[mlji][f-]%d%d%d%d") and string.sub(entry, 3, 6) ~= "0000"
  if version(entry) ~= VERSION or not made then
    return nil
  end
  local late = overdue(string.sub(entry, 7, 28), tonumber(place))
  return late <= QUEUE_LIFE - LOOK_EVERY and late or nil
end

-- length returns for how many ms the key is offered to the claim of an entry,
-- or nil if the claim is passed over, which the last one that may be asked is
-- not.
local function length(entry, inbox, late, last)
  local short = tonumber(string.sub(entry, 3, 6))
  local hear = KNOWN and redis.pcall("pubsub", "numsub", inbox)
  hear = hear and hear[2] -- nil if the server does not tell
  if hear and hear > 0 then
    return late <= LATE and tonumber(string.match(entry, '^,"offer":([1-9]%d%d%d?)%D', 57)) or short
  end
  -- Only a claim that hears may rest beyond LOOK_EVERY. A place has fractions
  -- of a ms, which the clock has not.
  local told = string.find(entry, "^[mj]") or late < -LOOK_EVERY - 1
  if not last and (late > LATE or hear and told) then
    return nil -- most likely dead
  end
  return short -- one that only looks finds the key by itself
end

-- offer makes the claim of an entry an owner of the key, beside n members or
-- alone, and tells its process. late is what lateness returned. behind is how
-- many wait behind the claim. offer returns false if the claim does not get the
-- key.
local function offer(entry, limit, late, last, behind, n)
  local inbox, token = INBOXES .. string.sub(entry, 29, 50), "0"
  local ms = length(entry, inbox, late, last)
  if not ms then
    return false
  end
  if string.sub(entry, 2, 2) == "f" then
    local able
    able, token = pcall(reserve, KEYS[4], FENCE_BLOCK, COUNTER_LIFE)
    if not able then
      return false -- a counter that cannot be used is for the claim's own try to report
    end
  end
  if limit == 1 then
    redis.call("set", KEYS[1], string.sub(entry, 7), "px", ms)
  else
    crowd.put(entry, n, ms)
  end
  redis.pcall("publish", inbox, "offered " .. string.format("%.0f", ms) .. " " .. string.sub(entry, 7, 28) .. " " ..
    token .. " " .. string.format("%.0f", behind) .. " " .. KEY)
  return true
end
