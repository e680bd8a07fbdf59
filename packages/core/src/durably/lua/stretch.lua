-- Gives a claim a budget that ends no sooner than `budget` from now, and never sooner than it did.
-- It revives a claim that lapsed and that nobody took, not one that was given back.
-- KEYS[1] the claim's hash  KEYS[2] the records' hash
-- ARGV[1] token  ARGV[2] budget, ms  ARGV[3] worth of one sign of life, ms  ARGV[4] ttl, ms
-- returns 1; 0 when the claim is another's, or was given back
-- errors  none of its own
-- @include now
-- @include alive
local pass, token, budget, worth, ttl = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local held = redis.call('HMGET', pass, 'token', 'until')
local budget_end = tonumber(held[2] or '0')
if not held[1] or token < tonumber(held[1]) or budget_end == 0 then return 0 end
local now = now_ms()
budget_end = math.max(budget_end, now + budget)
redis.call('HSET', pass, 'until', string.format('%.0f', budget_end), 'for', worth)
sign_of_life(pass, KEYS[2], now, budget_end, worth, ttl)
return 1
