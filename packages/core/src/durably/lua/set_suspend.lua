-- Answers for a delivery and makes the workflow visible at a deadline, unless something has rescheduled it since:
-- then that stands. A cancelled workflow has no score, and is not brought back.
-- KEYS[1] schedule  KEYS[2] answers
-- ARGV[1] workflow  ARGV[2] receipt  ARGV[3] deadline, whole ms
-- returns 1; 0 when it is not held
-- errors  none of its own
local score = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not score or tonumber(score) ~= tonumber(ARGV[2]) then return 0 end
redis.call('HDEL', KEYS[2], 'w:' .. ARGV[1]) -- first: out of memory, a script may only go on after a write that needs none
redis.call('ZADD', KEYS[1], ARGV[3], ARGV[1])
return 1
