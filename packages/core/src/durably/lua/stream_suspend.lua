-- Answers for a delivery and asks for a pass at a deadline, in one step.
-- A wakeup that has come since is an entry of its own and stays; a sooner deadline stands (LT). A delivery that is no
-- longer held, or whose workflow was cancelled since (its entry is gone, or at or below the cancellation's mark), asks
-- for nothing.
-- KEYS[1] ready stream  KEYS[2] sleepers  KEYS[3] marks
-- ARGV[1] group  ARGV[2] consumer  ARGV[3] entry  ARGV[4] workflow  ARGV[5] deadline, unix seconds
-- returns the time until the deadline, µs, 1 at the least; 0 when nothing was asked for
-- errors  none of its own
-- @include held
-- @include ids
-- @include marks
local stream, group, consumer, id, workflow = KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4]
if not holds(stream, group, consumer, id) then return 0 end
local cancelled = #redis.call('XRANGE', stream, id, id) == 0 or is_cancelled(KEYS[3], workflow, id)
redis.call('ZREM', KEYS[2], '') -- nothing: out of memory, a script may only go on after a write that needs none
if not cancelled then redis.call('ZADD', KEYS[2], 'LT', ARGV[5], workflow) end
redis.call('XACK', stream, group, id)
if cancelled then return 0 end
local t = redis.call('TIME')
local left = math.ceil((tonumber(ARGV[5]) - tonumber(string.format('%d.%06d', t[1], t[2]))) * 1000000)
return math.min(math.max(1, left), 9e15)
