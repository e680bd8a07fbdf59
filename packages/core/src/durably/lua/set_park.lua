-- Answers for a delivery and parks its workflow: no pass is asked for until somebody takes it off the list again.
-- One that has been rescheduled since stays scheduled.
-- KEYS[1] schedule  KEYS[2] parked  KEYS[3] answers  KEYS[4] those that slept
-- ARGV[1] workflow  ARGV[2] receipt  ARGV[3] reason
-- returns 1; 0 when the delivery is not held
-- errors  none of its own
-- @include parked
local score = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not score or tonumber(score) ~= tonumber(ARGV[2]) then return 0 end
park(KEYS[2], ARGV[1], ARGV[3])
redis.call('HDEL', KEYS[3], 'w:' .. ARGV[1])
redis.call('HDEL', KEYS[4], ARGV[1])
return redis.call('ZREM', KEYS[1], ARGV[1])
