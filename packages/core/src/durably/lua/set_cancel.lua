-- Drops a workflow, whatever its score means now. It is not parked any more, and when it was cancelled is noted, so that no
-- sweep brings it back. Where its records go with it, it is noted only where there are sweeps: one may have looked just
-- now, and the next ones take the note off.
-- KEYS[1] schedule  KEYS[2] answers  KEYS[3] those that slept  KEYS[4] parked  KEYS[5] dropped  KEYS[6] sweep
-- ARGV[1] workflow  ARGV[2] '1' to note in any case; '' where its records go with it
-- returns how many entries were dropped
-- errors  none of its own
-- @include now
redis.call('HDEL', KEYS[2], 'w:' .. ARGV[1])
redis.call('HDEL', KEYS[3], ARGV[1])
redis.call('HDEL', KEYS[4], ARGV[1])
if ARGV[2] == '1' or redis.call('EXISTS', KEYS[6]) == 1 then
  redis.call('HSET', KEYS[5], ARGV[1], string.format('%.0f', now_ms()))
end
return redis.call('ZREM', KEYS[1], ARGV[1])
