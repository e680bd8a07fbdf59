-- Whether a delivery still stands: its workflow is scheduled, under this receipt or again since.
-- KEYS[1] schedule
-- ARGV[1] workflow
-- returns 1; 0 when it was cancelled, or answered for
-- errors  none of its own
return redis.call('ZSCORE', KEYS[1], ARGV[1]) and 1 or 0
