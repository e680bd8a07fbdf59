-- Gives a claim back: the next pass may begin at once, and nothing revives this one.
-- KEYS[1] the claim's hash
-- ARGV[1] token  ARGV[2] ttl, ms
-- returns 1; 0 when the claim is another's
-- errors  none of its own
local pass, token, ttl = KEYS[1], ARGV[1], ARGV[2]
if redis.call('HGET', pass, 'token') ~= token then return 0 end
redis.call('PEXPIRE', pass, ttl) -- first: out of memory, a script may only go on after a write that needs none
redis.call('HSET', pass, 'until', 0, 'alive', 0)
return 1
