-- Lets one reader that waits at the bell look: a list of one token, never more. Out of memory it stays silent: readers
-- look by themselves as well.
local function ring_bell(bell)
  if redis.call('EXISTS', bell) == 0 then redis.pcall('LPUSH', bell, '1') end
end
