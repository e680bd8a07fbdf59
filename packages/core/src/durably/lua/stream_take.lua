-- Takes what nobody has read yet, without waiting. Entries that a cancellation's mark holds back are dropped, those of
-- another kind answered for; a bounded number of them.
-- KEYS[1] ready stream  KEYS[2] marks
-- ARGV[1] group  ARGV[2] consumer  ARGV[3] how many at most  ARGV[4] how many to read at most
-- returns {1 when there may be more than was read, else 0; entry, workflow, '1' if it comes out of a sleep, else '', ...}
-- errors  NOGROUP when the group is not there
-- @include ids
-- @include marks
-- @include names
local stream, group, most, left = KEYS[1], ARGV[1], tonumber(ARGV[3]), tonumber(ARGV[4])
local taken = {0}
while most > 0 do
  local count = math.min(most, left)
  if count < 1 then
    taken[1] = 1
    break
  end
  local reply = redis.call('XREADGROUP', 'GROUP', group, ARGV[2], 'COUNT', count, 'STREAMS', stream, '>')
  if not reply then break end
  for _, entry in ipairs(reply[1][2]) do
    local id, workflow = entry[1], named(entry[2])
    left = left - 1
    if not workflow then
      redis.call('XACK', stream, group, id)
    elseif is_cancelled(KEYS[2], workflow, id) then
      drop(stream, group, id)
    else
      most = most - 1
      taken[#taken + 1] = id
      taken[#taken + 1] = workflow
      taken[#taken + 1] = has(entry[2], 'slept') and '1' or ''
    end
  end
end
return taken
