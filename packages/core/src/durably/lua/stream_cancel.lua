-- Begins a cancellation: no sleeper is left, and no delivery up to now can add one (see stream_suspend).
-- KEYS[1] ready stream  KEYS[2] sleepers  KEYS[3] cancellations under way  KEYS[4] parked  KEYS[5] dropped
-- ARGV[1] workflow  ARGV[2] how long the marks are kept, ms  ARGV[3] nonce of this call
-- ARGV[4] '1' to note when, so that no sweep brings it back; '' where its records go with it
-- returns the last id to sweep; nil when there is no stream
-- errors  none of its own
-- @include now
redis.call('ZREM', KEYS[2], ARGV[1]) -- first: out of memory, a script may only go on after a write that needs none
redis.call('HDEL', KEYS[4], ARGV[1])
if ARGV[4] == '1' then redis.call('HSET', KEYS[5], ARGV[1], string.format('%.0f', now_ms())) end
if redis.call('EXISTS', KEYS[1]) == 0 then return false end
local info = redis.call('XINFO', 'STREAM', KEYS[1])
local last
for i = 1, #info, 2 do
  if info[i] == 'last-generated-id' then last = info[i + 1] end
end
redis.call('HSET', KEYS[3], ARGV[1], last .. '-' .. ARGV[3])
redis.call('PEXPIRE', KEYS[3], ARGV[2])
return last
