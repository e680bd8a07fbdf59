-- Parks a workflow that sleeps, unless its score is another by now, or a delivery of it is out.
-- KEYS[1] schedule  KEYS[2] parked  KEYS[3] those that slept
-- ARGV[1] workflow  ARGV[2] the score that was seen  ARGV[3] reason
-- A call that is sent twice finds it parked.
-- returns 1; 0 when it does not sleep so any more
-- errors  none of its own
-- @include parked
if redis.call('ZSCORE', KEYS[1], ARGV[1]) == false then return redis.call('HEXISTS', KEYS[2], ARGV[1]) end
local score = tonumber(redis.call('ZSCORE', KEYS[1], ARGV[1]) or '')
if not score or score ~= tonumber(ARGV[2]) or score ~= math.floor(score) then return 0 end
park(KEYS[2], ARGV[1], ARGV[3])
redis.call('HDEL', KEYS[3], ARGV[1])
return redis.call('ZREM', KEYS[1], ARGV[1])
