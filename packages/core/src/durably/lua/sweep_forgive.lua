-- Takes off the note that a workflow was cancelled, unless it has been cancelled again since.
-- KEYS[1] dropped
-- ARGV[1] workflow  ARGV[2] what the note said
-- returns 1; 0 when the note is another
-- errors  none of its own
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
return redis.call('HDEL', KEYS[1], ARGV[1])
