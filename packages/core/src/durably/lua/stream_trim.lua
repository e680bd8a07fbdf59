-- Removes entries that every group has read and answered for, a bounded number of them. Never an unread or pending
-- entry, and nothing from a stream without groups: nobody has read it yet.
--
-- Where the server has XTRIM ... ACKED (exact: with ~ some releases trim nothing) it finds them, also between pending
-- ones. Elsewhere the floor is the smallest id that any group still needs: the one after its last delivered, lowered
-- to its smallest pending one. Pending ids whose entry is gone (a cancelled workflow's) are acknowledged on the way,
-- so that they hold nothing back.
-- KEYS[1] ready stream
-- ARGV[1] how many entries to look at
-- returns how many entries were removed
-- errors  none of its own
-- @include ids
-- @include after
local stream, most = KEYS[1], tonumber(ARGV[1])
if redis.call('EXISTS', stream) == 0 then return 0 end
local groups = redis.call('XINFO', 'GROUPS', stream)
if #groups == 0 then return 0 end

local keep = math.max(0, redis.call('XLEN', stream) - most)
local acked = redis.pcall('XTRIM', stream, 'MAXLEN', '=', keep, 'ACKED')
if type(acked) == 'number' then return acked end

local floor = nil
for _, group in ipairs(groups) do
  local name, last
  for i = 1, #group, 2 do
    if group[i] == 'name' then name = group[i + 1] elseif group[i] == 'last-delivered-id' then last = group[i + 1] end
  end
  local need, from, left = after(last), '-', 1000
  while true do
    local rows = redis.call('XPENDING', stream, name, from, '+', 100)
    local held = nil
    for _, row in ipairs(rows) do
      if #redis.call('XRANGE', stream, row[1], row[1]) > 0 then
        held = row[1]
        break
      end
      redis.call('XACK', stream, name, row[1])
    end
    left = left - #rows
    if held or #rows < 100 then
      if held and before(held, need) then need = held end
      break
    end
    from = after(rows[#rows][1])
    if left <= 0 then
      if before(from, need) then need = from end
      break
    end
  end
  if not floor or before(need, floor) then floor = need end
end
local first = redis.call('XRANGE', stream, '-', '+', 'COUNT', most + 1)
if #first > most and before(first[most + 1][1], floor) then floor = first[most + 1][1] end
return redis.call('XTRIM', stream, 'MINID', '=', floor)
