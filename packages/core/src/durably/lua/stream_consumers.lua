-- Removes the group's consumers that have shown no sign of life for long and hold nothing; one step, so that none is
-- removed that takes something meanwhile. One that comes back is made anew by its first read.
-- A call that is sent twice is told the same: the answer is kept for a while.
-- KEYS[1] ready stream  KEYS[2] the answer to this call
-- ARGV[1] group  ARGV[2] idle, ms  ARGV[3] the consumer that is kept in any case
-- ARGV[4] how long the answer is kept, ms
-- returns those removed
-- errors  none of its own
local removed, said_before = {}, redis.call('GET', KEYS[2])
if said_before then return cjson.decode(said_before) end
if redis.call('EXISTS', KEYS[1]) == 0 then return removed end
local consumers = redis.pcall('XINFO', 'CONSUMERS', KEYS[1], ARGV[1])
if consumers.err then
  if string.find(consumers.err, 'NOGROUP') then return removed end
  return consumers
end
redis.call('DEL', KEYS[2]) -- nothing: out of memory, a script may only go on after a write that needs none
for _, one in ipairs(consumers) do
  local said = {}
  for i = 1, #one, 2 do said[one[i]] = one[i + 1] end
  if said.pending == 0 and said.idle >= tonumber(ARGV[2]) and said.name ~= ARGV[3] then
    redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], said.name)
    removed[#removed + 1] = said.name
  end
end
if #removed > 0 then redis.call('SET', KEYS[2], cjson.encode(removed), 'PX', ARGV[4]) end
return removed
