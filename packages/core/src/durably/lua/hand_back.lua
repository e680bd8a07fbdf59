-- Gives a claim back: the next pass may begin at once, and nothing revives this one. And says for how long the records
-- are kept now: nothing that waits expires.
-- KEYS[1] the claim's hash  KEYS[2] the records' hash
-- ARGV[1] token  ARGV[2] ttl, ms  ARGV[3] what the pass came to: 'ended' (records live for ttl from now), 'waits' (for
-- as long as it takes), 'sleeps' (until the deadline and ttl beyond), 'failed' or '' (for ttl at least)
-- ARGV[4] the deadline of a sleep, or how long a wait is kept; ms, '' for none
-- returns 1; 0 when the claim is another's
-- errors  none of its own
-- @include now
-- @include keep
local pass, records, token, ttl, state, until_when = KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
if redis.call('HGET', pass, 'token') ~= token then return 0 end
local lives = ttl
if state == 'sleeps' then lives = string.format('%.0f', math.max(0, until_when - now_ms()) + tonumber(ttl)) end
if state == 'waits' and until_when then lives = string.format('%.0f', until_when) end
-- The first write is one that needs no memory: out of memory, a script may only go on after such a one.
if state == 'waits' and not until_when then
  redis.call('PERSIST', pass)
  redis.call('PERSIST', records)
else
  redis.call('PEXPIRE', pass, lives)
  if state == 'ended' or state == 'sleeps' or state == 'waits' then
    redis.call('PEXPIRE', records, lives)
  elseif state == 'failed' then
    keep(records, tonumber(ttl))
  end
end
redis.call('HSET', pass, 'until', 0, 'alive', 0)
return 1
