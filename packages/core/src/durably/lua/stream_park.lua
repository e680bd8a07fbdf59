-- Answers for a delivery and parks its workflow: no pass is asked for until somebody takes it off the list again. One that
-- was cancelled since (its entry is gone, or at or below the cancellation's mark) is not parked.
-- KEYS[1] ready stream  KEYS[2] parked  KEYS[3] marks
-- ARGV[1] group  ARGV[2] consumer  ARGV[3] entry  ARGV[4] workflow  ARGV[5] reason
-- returns 1; 0 when the delivery is not held
-- errors  none of its own
-- @include held
-- @include ids
-- @include marks
-- @include parked
local stream, id = KEYS[1], ARGV[3]
if not holds(stream, ARGV[1], ARGV[2], id) then return 0 end
local cancelled = #redis.call('XRANGE', stream, id, id) == 0 or is_cancelled(KEYS[3], ARGV[4], id)
if not cancelled then park(KEYS[2], ARGV[4], ARGV[5]) end
return redis.call('XACK', stream, ARGV[1], id)
