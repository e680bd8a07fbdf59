-- Claims a workflow: at most one live pass, each with a higher token than any before it.
-- One step, because the look at the present claim and the taking of it must not be parted.
-- A call that is sent twice finds its own nonce in the claim and is told the same token.
-- KEYS[1] the claim's hash
-- ARGV[1] budget, ms  ARGV[2] worth of one sign of life, ms  ARGV[3] ttl, ms  ARGV[4] nonce of this call
-- returns the token, as text; nil when another pass holds the workflow
-- errors  none of its own
-- @include now
-- @include alive
local pass, budget, worth, ttl, nonce = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
local held = redis.call('HMGET', pass, 'token', 'until', 'alive', 'by')
local now = now_ms()
if math.min(tonumber(held[2] or '0'), tonumber(held[3] or '0')) > now then
  if held[4] == nonce then return held[1] end
  return false
end
local token = string.format('%.0f', math.max(now, tonumber(held[1] or '0') + 1))
redis.call('HSET', pass, 'token', token, 'until', string.format('%.0f', now + budget), 'for', worth, 'by', nonce)
sign_of_life(pass, now, now + budget, worth, ttl)
return token
