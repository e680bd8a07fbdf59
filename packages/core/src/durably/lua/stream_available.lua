-- How many deliveries could be taken: entries nobody has read, and deliveries without a sign of life for a lease. What a
-- cancellation's mark holds back counts until somebody has met it and dropped it.
-- KEYS[1] ready stream
-- ARGV[1] group  ARGV[2] lease, ms  ARGV[3] how many to count at most
-- returns the count
-- errors  none of its own
local most = tonumber(ARGV[3])
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
local last = nil
for _, group in ipairs(redis.call('XINFO', 'GROUPS', KEYS[1])) do
  local name, id
  for i = 1, #group, 2 do
    if group[i] == 'name' then name = group[i + 1] elseif group[i] == 'last-delivered-id' then id = group[i + 1] end
  end
  if name == ARGV[1] then last = id end
end
if not last then return math.min(most, redis.call('XLEN', KEYS[1])) end
local unread = #redis.call('XRANGE', KEYS[1], '(' .. last, '+', 'COUNT', most)
if unread >= most then return most end
for _, row in ipairs(redis.call('XPENDING', KEYS[1], ARGV[1], 'IDLE', ARGV[2], '-', '+', most - unread)) do
  unread = unread + #redis.call('XRANGE', KEYS[1], row[1], row[1]) -- a cancelled one's entry is gone
end
return unread
