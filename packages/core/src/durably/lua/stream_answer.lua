-- Answers for a delivery, if this consumer still holds it: one that another took over is the other's to answer for.
-- KEYS[1] ready stream
-- ARGV[1] group  ARGV[2] consumer  ARGV[3] entry
-- returns 1; 0 when it is not held
-- errors  none of its own
-- @include held
if not holds(KEYS[1], ARGV[1], ARGV[2], ARGV[3]) then return 0 end
return redis.call('XACK', KEYS[1], ARGV[1], ARGV[3])
