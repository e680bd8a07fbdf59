-- Removes every record of a workflow and raises its fence, so that a pass in flight can write nothing more.
-- The fence outlives the fenced pass's budget by ttl. A call that is sent twice is told the same count.
-- KEYS[1] the records' hash  KEYS[2] the claim's hash
-- ARGV[1] ttl, ms  ARGV[2] nonce of this call
-- returns how many records there were
-- errors  none of its own
-- @include now
local records, pass, ttl, nonce = KEYS[1], KEYS[2], tonumber(ARGV[1]), ARGV[2]
local held = redis.call('HMGET', pass, 'token', 'until', 'gone', 'count')
if held[3] == nonce then return tonumber(held[4]) end
local removed = redis.call('HLEN', records)
if removed == 0 and not held[1] then return 0 end
local now = now_ms()
local token = string.format('%.0f', math.max(now, tonumber(held[1] or '0') + 1))
redis.call('DEL', records, pass)
redis.call('HSET', pass, 'token', token, 'until', 0, 'alive', 0, 'gone', nonce, 'count', removed)
redis.call('PEXPIRE', pass, string.format('%.0f', math.max(0, tonumber(held[2] or '0') - now) + ttl))
return removed
