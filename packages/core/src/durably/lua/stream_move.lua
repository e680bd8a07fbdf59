-- Moves sleepers whose deadline has come to the queue, each in this one step: none is ever in neither place. Tells how
-- long it is until the next one is due, by the clock that decides: rounded up, so that who waits so long finds it due.
-- KEYS[1] sleepers  KEYS[2] ready stream  KEYS[3] marks of cancellations
-- ARGV[1] now, unix seconds; '' for the server's clock  ARGV[2] how many at most
-- returns {µs until the next deadline, 0 for one that has come, -1 without a sleeper; how many marks there are; the
--         workflows moved ...}
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
local first = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')
local left = -1
if first[2] then left = math.max(0, math.ceil((tonumber(first[2]) - tonumber(now)) * 1000000)) end
local answer = {math.min(left, 9e15), redis.call('HLEN', KEYS[3])}
for _, workflow in ipairs(due) do answer[#answer + 1] = workflow end
return answer
