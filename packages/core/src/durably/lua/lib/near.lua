-- Whether `workflow`, visible in `left` µs, is the first to come, and within a second.
local function is_next(schedule, workflow, left)
  return left <= 1000000 and redis.call('ZRANGE', schedule, 0, 0)[1] == workflow
end
