-- Answers for a delivery and parks its workflow: no pass is asked for until somebody takes it off the list again.
-- KEYS[1] ready stream  KEYS[2] parked
-- ARGV[1] group  ARGV[2] consumer  ARGV[3] entry  ARGV[4] workflow  ARGV[5] reason
-- returns 1; 0 when the delivery is not held
-- errors  none of its own
-- @include held
-- @include parked
if not holds(KEYS[1], ARGV[1], ARGV[2], ARGV[3]) then return 0 end
park(KEYS[2], ARGV[4], ARGV[5])
return redis.call('XACK', KEYS[1], ARGV[1], ARGV[3])
