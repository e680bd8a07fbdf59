-- Whether `consumer` still holds the pending entry `id` of `group`.
local function holds(stream, group, consumer, id)
  local rows = redis.pcall('XPENDING', stream, group, id, id, 1, consumer)
  if rows.err then
    if string.find(rows.err, 'NOGROUP') then return false end
    error(rows, 0)
  end
  return #rows > 0
end
