-- Whether `consumer` still holds the pending entry `id` of `group`.
local function holds(stream, group, consumer, id)
  local rows = redis.pcall('XPENDING', stream, group, id, id, 1, consumer)
  if rows.err then
    if string.find(rows.err, 'NOGROUP') then return false end
    redis.call('XPENDING', stream, group, id, id, 1, consumer) -- raises it again, as the server says it
  end
  return #rows > 0
end
