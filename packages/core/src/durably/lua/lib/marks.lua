-- Whether entry `id` of `workflow` is at or below the workflow's mark (see stream_cancel): it is never to be yielded.
-- Needs `before`.
local function is_cancelled(marks, workflow, id)
  local mark = redis.call('HGET', marks, workflow)
  return mark and not before(mark, id)
end
-- Takes an entry out for good, for every group.
local function drop(stream, group, id)
  redis.call('XACK', stream, group, id)
  redis.call('XDEL', stream, id)
end
