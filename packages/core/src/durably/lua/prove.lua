-- Writes for a pass that was handed what is recorded, so that an acknowledgement on this connection covers those
-- records: they came before its claim, and its claim is here.
-- KEYS[1] the claim's hash
-- ARGV[1] token
-- returns 1
-- errors  FENCED when the claim is another's, or gone
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then return redis.error_reply('FENCED the claim is not held any more') end
redis.call('HSET', KEYS[1], 'token', ARGV[1])
return 1
