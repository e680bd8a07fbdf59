-- Takes a workflow off the list of those that are parked, and asks for a pass over it.
-- KEYS[1] ready stream  KEYS[2] parked  KEYS[3] the answer to this call
-- ARGV[1] workflow  ARGV[2] how long the answer is kept, ms
-- returns 1; 0 when it was not parked
-- errors  none of its own
-- @include unparked
local was, before = unpark(KEYS[2], KEYS[3], ARGV[1], ARGV[2])
if was and not before then redis.call('XADD', KEYS[1], '*', 'workflow', ARGV[1]) end
return was and 1 or 0
