-- Claims a workflow: at most one live pass, each with a higher token than any before it.
-- One step, because the look at the present claim and the taking of it must not be parted.
-- A call that is sent twice finds its own nonce in the claim and is told the same token.
-- A workflow that has not ended and of whose records some are gone is not claimed: it would run from the top, in
-- silence. Nor is one that comes out of a sleep and of which nothing at all is known.
-- KEYS[1] the claim's hash  KEYS[2] the records' hash
-- ARGV[1] budget, ms  ARGV[2] worth of one sign of life, ms  ARGV[3] ttl, ms  ARGV[4] nonce of this call
-- ARGV[5] '1' when the wakeup came out of a sleep, else ''
-- returns the token, as text; nil when another pass holds the workflow
-- errors  GONE and how many records there are of how many
-- @include now
-- @include alive
local pass, records, nonce = KEYS[1], KEYS[2], ARGV[4]
local budget, worth, ttl = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local held = redis.call('HMGET', pass, 'token', 'until', 'alive', 'by', 'state', 'seen')
local now = now_ms()
if math.min(tonumber(held[2] or '0'), tonumber(held[3] or '0')) > now then
  if held[4] == nonce then return held[1] end
  return false
end
local there, seen = redis.call('HLEN', records), tonumber(held[6] or '0')
if held[5] and held[5] ~= 'ended' and there < seen then
  return redis.error_reply('GONE ' .. there .. ' of ' .. string.format('%.0f', seen))
end
if ARGV[5] == '1' and there == 0 and redis.call('EXISTS', pass) == 0 then
  return redis.error_reply('GONE 0 of all')
end
local token = string.format('%.0f', math.max(now, tonumber(held[1] or '0') + 1))
redis.call('HSET', pass, 'token', token, 'until', string.format('%.0f', now + budget), 'for', worth, 'by', nonce,
  'state', 'runs')
sign_of_life(pass, records, now, now + budget, worth, ttl, there, not held[5])
return token
