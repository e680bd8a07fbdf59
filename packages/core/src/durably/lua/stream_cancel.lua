-- Cancels a workflow, in this one step however long the queue is: no sleeper is left, no entry up to now is ever yielded,
-- and no delivery up to now asks for a wakeup (see stream_suspend). It is not parked any more, and when it was cancelled is
-- noted, so that no sweep brings it back. Where its records go with it, it is noted only where there are sweeps: one may
-- have looked just now, and the next ones take the note off.
-- A short stream is read, and the workflow's entries are deleted. For a longer one a mark is left instead: the last id
-- that there is. Entries at or below it are dropped by those who meet them; a later one has a higher id, and stands.
-- The mark lives until housekeeping has seen to it that nothing is left that it holds back (see stream_unmark).
-- A call that is sent twice finds its own mark, and leaves alone what came after it.
-- KEYS[1] ready stream  KEYS[2] sleepers  KEYS[3] marks  KEYS[4] parked  KEYS[5] dropped  KEYS[6] sweep
-- ARGV[1] workflow  ARGV[2] how many entries are a short stream  ARGV[3] nonce of this call
-- ARGV[4] '1' to note in any case; '' where its records go with it
-- returns 1 when a mark is left; 0 when nothing is
-- errors  none of its own
-- @include names
-- @include now
local stream, marks, workflow = KEYS[1], KEYS[3], ARGV[1]
local nonce = '-' .. ARGV[3]
local mark = redis.call('HGET', marks, workflow)
if mark and string.sub(mark, -#nonce) == nonce then return 1 end
redis.call('ZREM', KEYS[2], workflow) -- first: out of memory, a script may only go on after a write that needs none
redis.call('HDEL', KEYS[4], workflow)
if ARGV[4] == '1' or redis.call('EXISTS', KEYS[6]) == 1 then
  redis.call('HSET', KEYS[5], workflow, string.format('%.0f', now_ms()))
end
if redis.call('XLEN', stream) <= tonumber(ARGV[2]) then
  for _, entry in ipairs(redis.call('XRANGE', stream, '-', '+')) do
    if named(entry[2]) == workflow then redis.call('XDEL', stream, entry[1]) end
  end
  if mark then redis.call('HDEL', marks, workflow) end
  return 0
end
local info = redis.call('XINFO', 'STREAM', stream)
for i = 1, #info, 2 do
  if info[i] == 'last-generated-id' then redis.call('HSET', marks, workflow, info[i + 1] .. nonce) end
end
return 1
