-- Moves sleepers whose deadline has come to the queue, each in this one step: none is ever in neither place.
-- KEYS[1] sleepers  KEYS[2] ready stream
-- ARGV[1] now, unix seconds; '' for the server's clock  ARGV[2] how many at most
-- returns the workflows moved
-- errors  none of its own
local now = ARGV[1]
if now == '' then
  local t = redis.call('TIME')
  now = string.format('%d.%06d', t[1], t[2])
end
local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, ARGV[2])
for _, workflow in ipairs(due) do
  redis.call('XADD', KEYS[2], '*', 'workflow', workflow, 'slept', '1') -- first: if it fails, the sleeper is still one
  redis.call('ZREM', KEYS[1], workflow)
end
return due
