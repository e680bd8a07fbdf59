-- Stamps one sign of life at `now`, never past the budget's end (so never on a claim that was given back, whose
-- budget ended at 0), and notes how many records the pass knows of, if that is given.
-- No expiry cuts a live claim short, nor what it works on: the records are kept for `ttl` ms beyond the sign's worth,
-- the claim's key for twice that beyond the budget's end, so that it tells of records that are gone. What lives
-- longer is left alone; `new`: no pass has worked on it, so that it has no expiry yet.
local function sign_of_life(pass, records, now, budget_end, worth, ttl, seen, new)
  local lapses = math.min(budget_end, now + worth)
  if seen then
    redis.call('HSET', pass, 'alive', string.format('%.0f', lapses), 'seen', seen)
  else
    redis.call('HSET', pass, 'alive', string.format('%.0f', lapses))
  end
  local left, wanted = redis.call('PTTL', records), math.max(0, lapses - now) + ttl
  if (new and left == -1) or (left >= 0 and left < wanted) then redis.call('PEXPIRE', records, string.format('%.0f', wanted)) end
  left, wanted = redis.call('PTTL', pass), math.max(0, budget_end - now) + 2 * ttl
  if new or (left >= 0 and left < wanted) then redis.call('PEXPIRE', pass, string.format('%.0f', wanted)) end
end
