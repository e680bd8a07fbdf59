-- Takes over one delivery that showed no sign of life for long enough, looking from a cursor on, a bounded way.
-- Pending ids whose entry is gone are passed over (and dropped, where the server does so by itself); what a
-- cancellation's mark holds back is dropped.
-- KEYS[1] ready stream  KEYS[2] marks
-- ARGV[1] group  ARGV[2] consumer  ARGV[3] idle, ms  ARGV[4] cursor  ARGV[5] steps at most, of ten entries each
-- returns {next cursor}, or {next cursor, entry, field, value, ...}
-- errors  NOGROUP when the group is not there
-- @include ids
-- @include marks
-- @include names
local cursor = ARGV[4]
for _ = 1, tonumber(ARGV[5]) do
  local reply = redis.call('XAUTOCLAIM', KEYS[1], ARGV[1], ARGV[2], ARGV[3], cursor, 'COUNT', 1)
  cursor = reply[1]
  for _, entry in ipairs(reply[2]) do
    if entry and entry[2] then
      local workflow = named(entry[2])
      if workflow and is_cancelled(KEYS[2], workflow, entry[1]) then
        drop(KEYS[1], ARGV[1], entry[1])
      else
        local found = {cursor, entry[1]}
        for _, one in ipairs(entry[2]) do found[#found + 1] = one end
        return found
      end
    end
  end
  if cursor == '0-0' then break end
end
return {cursor}
