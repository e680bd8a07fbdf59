-- What is recorded of a step, for a pass that still holds its workflow: the look before acts that go with its record.
-- KEYS[1] the records' hash  KEYS[2] the claim's hash
-- ARGV[1] step  ARGV[2] token  ARGV[3] '1': an acknowledgement follows (see write.lua)
-- returns nil when nothing is; what is recorded, with its prefix, when there is a record
-- errors  FENCED when the claim is another's, or gone
local held = redis.call('HGET', KEYS[2], 'token')
if not held or tonumber(ARGV[2]) < tonumber(held) then
  return redis.error_reply('FENCED the claim is not held any more')
end
local stored = redis.call('HGET', KEYS[1], ARGV[1])
if stored and ARGV[3] == '1' then redis.call('HSET', KEYS[1], ARGV[1], stored) end
return stored
