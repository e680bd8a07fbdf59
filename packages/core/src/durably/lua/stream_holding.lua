-- Whether a delivery still stands: pending for this consumer, its entry there, its workflow not cancelled since. One
-- that was cancelled is dropped: nobody is to be given it again.
-- KEYS[1] ready stream  KEYS[2] marks
-- ARGV[1] group  ARGV[2] consumer  ARGV[3] entry  ARGV[4] workflow
-- returns 1; 0 when it does not
-- errors  none of its own
-- @include held
-- @include ids
-- @include marks
local id = ARGV[3]
if not holds(KEYS[1], ARGV[1], ARGV[2], id) then return 0 end
if #redis.call('XRANGE', KEYS[1], id, id) > 0 and not is_cancelled(KEYS[2], ARGV[4], id) then return 1 end
drop(KEYS[1], ARGV[1], id)
return 0
