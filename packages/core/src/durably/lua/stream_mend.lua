-- A sweep asks for a pass over a workflow, now or at its deadline, unless it was cancelled since the moment that the
-- sweep goes by. A call that is sent twice may ask for two passes, as make_ready may.
-- KEYS[1] ready stream  KEYS[2] sleepers  KEYS[3] dropped
-- ARGV[1] workflow  ARGV[2] that moment, ms  ARGV[3] deadline, unix seconds; '' for now
-- returns 1; 0 when nothing was asked for
-- errors  none of its own
local dropped = redis.call('HGET', KEYS[3], ARGV[1])
if dropped and tonumber(dropped) >= tonumber(ARGV[2]) then return 0 end
if ARGV[3] ~= '' then redis.call('ZADD', KEYS[2], 'NX', ARGV[3], ARGV[1]) else redis.call('XADD', KEYS[1], '*', 'workflow', ARGV[1]) end
return 1
