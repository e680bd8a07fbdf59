-- Files a message in a workflow's inbox, under a key that no record has and that sorts after every earlier one.
-- Numbers come from the count of records, which only grows. A call that is sent twice is told the same key: the
-- answer is kept under the call's nonce for a while, or, for a message that is to be filed once however often it is
-- delivered, under the message's own name for as long as the workflow is known.
-- KEYS[1] the records' hash  KEYS[2] the claim's hash  KEYS[3] the answer to this call
-- ARGV[1] encoding  ARGV[2] ttl, ms  ARGV[3] how long the answer is kept, ms
-- ARGV[4] '1': an acknowledgement follows (see write.lua)  ARGV[5] the message's name; '' for none
-- returns the message's key
-- errors  none of its own
-- @include now
-- @include keep
-- @include missing
local records, pass, said = KEYS[1], KEYS[2], KEYS[3]
local encoding, ttl, remembered, once = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[5]
local earlier
if once == '' then earlier = redis.call('GET', said) else earlier = redis.call('HGET', pass, 'got:' .. once) end
if earlier then
  if ARGV[4] == '1' then
    if once == '' then redis.call('PEXPIRE', said, remembered) else redis.call('HSET', pass, 'got:' .. once, earlier) end
  end
  return earlier
end
local position = redis.call('HLEN', records)
local n = position
local key = 'inbox:' .. string.format('%020d', n)
while redis.call('HEXISTS', records, key) == 1 do
  n = n + 1
  key = 'inbox:' .. string.format('%020d', n)
end
local new = redis.call('EXISTS', pass) == 0
redis.call('HSET', records, key, position .. ':' .. string.format('%.0f', now_ms()) .. ':' .. encoding)
keep_missing(pass, position)
-- What no pass has worked on yet waits for one, and does not expire.
keep(records, ttl, position == 0 and redis.call('HEXISTS', pass, 'state') == 1)
if once == '' then
  redis.call('SET', said, key, 'PX', remembered)
else
  redis.call('HSET', pass, 'got:' .. once, key)
end
keep(pass, 2 * ttl, new and redis.call('PTTL', records) ~= -1)
return key
