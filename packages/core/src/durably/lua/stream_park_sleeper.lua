-- Parks a workflow that sleeps, unless its deadline is another by now.
-- KEYS[1] sleepers  KEYS[2] parked
-- ARGV[1] workflow  ARGV[2] the deadline that was seen  ARGV[3] reason
-- A call that is sent twice finds it parked.
-- returns 1; 0 when it does not sleep so any more
-- errors  none of its own
-- @include parked
if redis.call('ZSCORE', KEYS[1], ARGV[1]) == false then return redis.call('HEXISTS', KEYS[2], ARGV[1]) end
local score = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not score or tonumber(score) ~= tonumber(ARGV[2]) then return 0 end
park(KEYS[2], ARGV[1], ARGV[3])
return redis.call('ZREM', KEYS[1], ARGV[1])
