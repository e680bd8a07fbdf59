-- Takes a workflow off the list of those that are parked; whether it was there. A call that is sent twice is told the
-- same: the answer is kept for a while.
local function unpark(parked, said, workflow, remembered)
  if redis.call('EXISTS', said) == 1 then return true, true end
  if redis.call('HDEL', parked, workflow) == 0 then return false, false end
  redis.call('SET', said, '1', 'PX', remembered)
  return true, false
end
