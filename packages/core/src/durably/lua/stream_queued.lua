-- Which workflows the queue holds wakeups of, page by page: entries that nobody has read, or pending ones. What a
-- cancellation's mark holds back is no wakeup.
-- KEYS[1] ready stream  KEYS[2] marks
-- ARGV[1] group  ARGV[2] 'unread' or 'pending'  ARGV[3] where the page begins, '' for the beginning
-- ARGV[4] how many at most
-- returns {where the next page begins, '' after the last one; the workflows ...}
-- errors  none of its own
-- @include ids
-- @include marks
-- @include names
local stream, group, from, most = KEYS[1], ARGV[1], ARGV[3], tonumber(ARGV[4])
local found = {''}
if redis.call('EXISTS', stream) == 0 then return found end
local function note(entry)
  local workflow = named(entry[2])
  if workflow and not is_cancelled(KEYS[2], workflow, entry[1]) then found[#found + 1] = workflow end
end
local last = nil
for _, one in ipairs(redis.call('XINFO', 'GROUPS', stream)) do
  local name, id
  for i = 1, #one, 2 do
    if one[i] == 'name' then name = one[i + 1] elseif one[i] == 'last-delivered-id' then id = one[i + 1] end
  end
  if name == group then last = id end
end
if ARGV[2] == 'unread' then
  if from == '' then from = last and '(' .. last or '-' end
  local entries = redis.call('XRANGE', stream, from, '+', 'COUNT', most)
  for _, entry in ipairs(entries) do note(entry) end
  if #entries == most then found[1] = '(' .. entries[most][1] end
elseif last then
  if from == '' then from = '-' end
  local rows = redis.call('XPENDING', stream, group, from, '+', most)
  for _, row in ipairs(rows) do
    local entry = redis.call('XRANGE', stream, row[1], row[1])[1]
    if entry then note(entry) end -- a cancelled one's is gone
  end
  if #rows == most then found[1] = '(' .. rows[most][1] end
end
return found
