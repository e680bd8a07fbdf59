-- Deletes the entries that cancellations' marks hold back, one page of the stream per call. The first call lets the
-- stream's ids go on by one, so that a mark that is put there later is not before the last id to look at.
-- KEYS[1] ready stream  KEYS[2] marks
-- ARGV[1] the last id of the page before; '' for the first page  ARGV[2] the last id to look at; '' for the last there is
-- ARGV[3] how many entries are a page
-- returns {the last id of this page, '' when it was the last page; the last id to look at; how many were deleted};
--         empty when there is no mark
-- errors  none of its own
-- @include ids
-- @include after
-- @include marks
-- @include names
local stream, upto = KEYS[1], ARGV[2]
if redis.call('EXISTS', KEYS[2]) == 0 then return {} end
if redis.call('EXISTS', stream) == 0 then return {'', upto, 0} end
if upto == '' then
  local info = redis.call('XINFO', 'STREAM', stream)
  for i = 1, #info, 2 do
    if info[i] == 'last-generated-id' then upto = info[i + 1] end
  end
  local following = after(upto)
  if not redis.pcall('XSETID', stream, following).err then upto = following end
end
local from = ARGV[1] == '' and '-' or '(' .. ARGV[1]
local page = redis.call('XRANGE', stream, from, upto, 'COUNT', ARGV[3])
local deleted = 0
for _, entry in ipairs(page) do
  local workflow = named(entry[2])
  if workflow and is_cancelled(KEYS[2], workflow, entry[1]) then
    deleted = deleted + redis.call('XDEL', stream, entry[1])
  end
end
return {#page == tonumber(ARGV[3]) and page[#page][1] or '', upto, deleted}
