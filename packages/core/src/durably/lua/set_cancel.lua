-- Drops a workflow, whatever its score means now.
-- KEYS[1] schedule  KEYS[2] answers  KEYS[3] those that slept  KEYS[4] parked  KEYS[5] dropped
-- ARGV[1] workflow  ARGV[2] '1' to note when, so that no sweep brings it back; '' where its records go with it
-- returns how many entries were dropped
-- errors  none of its own
-- @include now
redis.call('HDEL', KEYS[2], 'w:' .. ARGV[1])
redis.call('HDEL', KEYS[3], ARGV[1])
redis.call('HDEL', KEYS[4], ARGV[1])
local dropped = redis.call('ZREM', KEYS[1], ARGV[1])
if ARGV[2] == '1' then redis.call('HSET', KEYS[5], ARGV[1], string.format('%.0f', now_ms())) end
return dropped
