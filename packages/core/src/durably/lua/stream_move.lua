-- Moves sleepers whose deadline has come to the queue, each in this one step: none is ever in neither place.
-- KEYS[1] sleepers  KEYS[2] ready stream
-- ARGV[1] now, unix seconds  ARGV[2] how many at most
-- returns the workflows moved
-- errors  none of its own
local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, ARGV[2])
for _, workflow in ipairs(due) do
  redis.call('ZREM', KEYS[1], workflow)
  redis.call('XADD', KEYS[2], '*', 'workflow', workflow)
end
return due
