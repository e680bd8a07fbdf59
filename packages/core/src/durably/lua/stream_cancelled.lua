-- Ends a cancellation: takes the mark off, unless a later cancellation of the workflow has put its own there.
-- KEYS[1] cancellations under way
-- ARGV[1] workflow  ARGV[2] the mark, as `<last id>-<nonce>`
-- returns 1; 0 when the mark was another's
-- errors  none of its own
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
return redis.call('HDEL', KEYS[1], ARGV[1])
