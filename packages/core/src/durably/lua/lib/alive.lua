-- Stamps one sign of life at `now`, never past the budget's end (so never on a claim that was given back, whose
-- budget ended at 0), and keeps the claim's key for `ttl` ms beyond that end: expiry never cuts a live claim short.
local function sign_of_life(pass, now, budget_end, worth, ttl)
  redis.call('HSET', pass, 'alive', string.format('%.0f', math.min(budget_end, now + worth)))
  redis.call('PEXPIRE', pass, string.format('%.0f', math.max(0, budget_end - now) + ttl))
end
