-- Records a value that a workflow waits for, once, without a claim: the first value supplied stands.
-- KEYS[1] the records' hash  KEYS[2] the claim's hash
-- ARGV[1] step  ARGV[2] encoding  ARGV[3] ttl, ms
-- ARGV[4] '1': an acknowledgement follows (see write.lua)
-- returns nil when this write won; what is recorded, with its prefix, when there was a record
-- errors  none of its own
-- @include now
-- @include keep
-- @include missing
local records, pass, step, encoding, ttl = KEYS[1], KEYS[2], ARGV[1], ARGV[2], tonumber(ARGV[3])
local stored = redis.call('HGET', records, step)
if stored then
  if ARGV[4] == '1' then redis.call('HSET', records, step, stored) end
  return stored
end
local position = redis.call('HLEN', records)
redis.call('HSET', records, step, position .. ':' .. string.format('%.0f', now_ms()) .. ':' .. encoding)
keep_missing(pass, position)
-- What no pass has worked on yet waits for one, and does not expire.
keep(records, ttl, position == 0 and redis.call('HEXISTS', pass, 'state') == 1)
keep(pass, 2 * ttl)
return false
