-- One sign of life for a delivery: its idle clock starts again, if this consumer still holds it. Never takes one back.
-- KEYS[1] ready stream
-- ARGV[1] group  ARGV[2] consumer  ARGV[3] entry
-- returns 1; 0 when it is not held
-- errors  none of its own
-- @include held
if not holds(KEYS[1], ARGV[1], ARGV[2], ARGV[3]) then return 0 end
if #redis.call('XRANGE', KEYS[1], ARGV[3], ARGV[3]) == 0 then return 0 end
redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, ARGV[3], 'JUSTID')
return 1
