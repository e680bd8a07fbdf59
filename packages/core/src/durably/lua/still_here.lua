-- One sign of life, within the budget: it never lifts it, and says no once it is spent.
-- KEYS[1] the claim's hash  KEYS[2] the records' hash
-- ARGV[1] token  ARGV[2] worth of one sign of life, ms  ARGV[3] ttl, ms
-- returns 1; 0 when the claim is another's, was given back, or its budget is spent
-- errors  none of its own
-- @include now
-- @include alive
local pass, token, worth, ttl = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local held = redis.call('HMGET', pass, 'token', 'until')
local budget_end = tonumber(held[2] or '0')
local now = now_ms()
if not held[1] or token < tonumber(held[1]) or budget_end <= now then return 0 end
redis.call('HSET', pass, 'for', worth)
sign_of_life(pass, KEYS[2], now, budget_end, worth, ttl)
return 1
