-- Answers for a delivery and makes the workflow visible at a deadline, unless something has rescheduled it since:
-- then that stands. A cancelled workflow has no score, and is not brought back.
-- Rings the bell for a deadline that has come; and, where asked to, for one that is the first to come and within a
-- second, so that a reader that waits for another one waits anew (they all look once a second).
-- KEYS[1] schedule  KEYS[2] answers  KEYS[3] bell  KEYS[4] those that slept
-- ARGV[1] workflow  ARGV[2] receipt  ARGV[3] deadline, whole ms  ARGV[4] '1' to ring for a deadline that is near
-- returns µs until the deadline, 1 at the least; 0 when it is not held
-- errors  none of its own
-- @include left
-- @include bell
-- @include near
local score = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not score or tonumber(score) ~= tonumber(ARGV[2]) then return 0 end
redis.call('HDEL', KEYS[2], 'w:' .. ARGV[1]) -- first: out of memory, a script may only go on after a write that needs none
redis.call('ZADD', KEYS[1], ARGV[3], ARGV[1])
redis.call('HSET', KEYS[4], ARGV[1], '1')
local left = left_until(ARGV[3])
if left == 1 or (ARGV[4] == '1' and is_next(KEYS[1], ARGV[1], left)) then ring_bell(KEYS[3]) end
return left
