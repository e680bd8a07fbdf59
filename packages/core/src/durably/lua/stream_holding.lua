-- Whether a delivery still stands: pending for this consumer, its entry there, its workflow not cancelled since.
-- KEYS[1] ready stream  KEYS[2] cancellations under way
-- ARGV[1] group  ARGV[2] consumer  ARGV[3] entry  ARGV[4] workflow
-- returns 1; 0 when it does not
-- errors  none of its own
-- @include held
-- @include ids
local id = ARGV[3]
if not holds(KEYS[1], ARGV[1], ARGV[2], id) then return 0 end
if #redis.call('XRANGE', KEYS[1], id, id) == 0 then return 0 end
local mark = redis.call('HGET', KEYS[2], ARGV[4])
if mark and not before(mark, id) then return 0 end
return 1
