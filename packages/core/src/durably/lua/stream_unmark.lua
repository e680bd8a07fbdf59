-- Takes off the marks of cancellations that hold nothing back any more, a bounded number of them: those before the
-- stream's first entry, and those before the id that a sweep (see stream_sweep) has looked at as the last one there was
-- when it began. A mark that was put there since is not before it.
-- KEYS[1] ready stream  KEYS[2] marks
-- ARGV[1] the id that was swept up to; '' for none  ARGV[2] cursor  ARGV[3] how many marks to look at, about
-- returns the next cursor, '0' when all were looked at
-- errors  none of its own
-- @include ids
local first = redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', 1)[1]
local reply = redis.call('HSCAN', KEYS[2], ARGV[2], 'COUNT', ARGV[3])
local marks = reply[2]
for i = 1, #marks, 2 do
  local mark = marks[i + 1]
  if not first or before(mark, first[1]) or (ARGV[1] ~= '' and before(mark, ARGV[1])) then
    redis.call('HDEL', KEYS[2], marks[i])
  end
end
return reply[1]
