-- Records a step's result, once, for a pass that still holds its workflow.
-- One step, because the fence, the look for an earlier record and the write must not be parted. A refused or
-- late write moves nothing. A call that is sent twice finds its own encoding.
-- KEYS[1] the records' hash  KEYS[2] the claim's hash
-- ARGV[1] step  ARGV[2] encoding  ARGV[3] token  ARGV[4] ttl, ms
-- ARGV[5] '1': an acknowledgement follows, which covers only what its own connection wrote; so write in any case
-- returns nil when this write won; what is recorded, with its prefix, when there was a record
-- errors  FENCED when the claim is another's, or gone
-- @include now
-- @include alive
-- @include keep
local records, pass = KEYS[1], KEYS[2]
local step, encoding, token, ttl = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local held = redis.call('HMGET', pass, 'token', 'until', 'for', 'seen')
if not held[1] or token < tonumber(held[1]) then return redis.error_reply('FENCED the claim is not held any more') end
local stored = redis.call('HGET', records, step)
if stored then
  if ARGV[5] == '1' then redis.call('HSET', records, step, stored) end
  return stored
end
local now = now_ms()
local position = redis.call('HLEN', records)
redis.call('HSET', records, step, position .. ':' .. string.format('%.0f', now) .. ':' .. encoding)
keep(records, ttl, position == 0)
local seen = tonumber(held[4] or position) + 1
sign_of_life(pass, records, now, tonumber(held[2] or '0'), tonumber(held[3] or '0'), ttl, seen)
return false
