-- Files a message in a workflow's inbox, under a key that no record has and that sorts after every earlier one.
-- Numbers come from the count of records, which only grows. A call that is sent twice is told the same key: the
-- answer is kept under the call's nonce for a while.
-- KEYS[1] the records' hash  KEYS[2] the claim's hash  KEYS[3] the answer to this call
-- ARGV[1] encoding  ARGV[2] ttl, ms  ARGV[3] how long the answer is kept, ms
-- ARGV[4] '1': an acknowledgement follows (see write.lua)
-- returns the message's key
-- errors  none of its own
-- @include now
-- @include keep
local records, pass, said = KEYS[1], KEYS[2], KEYS[3]
local encoding, ttl, remembered = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local earlier = redis.call('GET', said)
if earlier then
  if ARGV[4] == '1' then redis.call('PEXPIRE', said, remembered) end
  return earlier
end
local position = redis.call('HLEN', records)
local n = position
local key = 'inbox:' .. string.format('%020d', n)
while redis.call('HEXISTS', records, key) == 1 do
  n = n + 1
  key = 'inbox:' .. string.format('%020d', n)
end
redis.call('HSET', records, key, position .. ':' .. string.format('%.0f', now_ms()) .. ':' .. encoding)
keep(records, ttl, position == 0)
keep(pass, ttl)
redis.call('SET', said, key, 'PX', remembered)
return key
