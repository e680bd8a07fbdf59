-- Drops a workflow, whatever its score means now.
-- KEYS[1] schedule  KEYS[2] answers
-- ARGV[1] workflow
-- returns how many entries were dropped
-- errors  none of its own
redis.call('HDEL', KEYS[2], 'w:' .. ARGV[1])
return redis.call('ZREM', KEYS[1], ARGV[1])
