-- Answers for a delivery: the workflow leaves the schedule, unless something has rescheduled it since.
-- KEYS[1] schedule  KEYS[2] answers  KEYS[3] those that slept
-- ARGV[1] workflow  ARGV[2] receipt
-- returns 1; 0 when it is not held
-- errors  none of its own
local score = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not score or tonumber(score) ~= tonumber(ARGV[2]) then return 0 end
redis.call('HDEL', KEYS[2], 'w:' .. ARGV[1])
redis.call('HDEL', KEYS[3], ARGV[1])
return redis.call('ZREM', KEYS[1], ARGV[1])
