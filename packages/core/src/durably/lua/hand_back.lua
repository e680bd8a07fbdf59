-- Gives a claim back: the next pass may begin at once, and nothing revives this one. And says what the pass came to,
-- and for how long the records are kept now: nothing that waits expires. The claim's key outlives them by ttl, so that
-- it tells of records that are gone.
-- A server that took over may lack what another had accepted. Where it has fewer records than the pass knows of, or not
-- its claim, it is not told what the pass came to: that would end a workflow whose last steps are lost. The next pass
-- goes on from what there is; where nothing is left at all, it is told how many records are missing.
-- KEYS[1] the claim's hash  KEYS[2] the records' hash
-- ARGV[1] token  ARGV[2] ttl, ms  ARGV[3] what the pass came to: 'ended' (records live for ttl from now), 'waits' (for
-- as long as it takes), 'sleeps' (until the deadline and ttl beyond), 'failed' (for ARGV[5]), 'cancelled' (for ttl: its
-- wakeup was cancelled before it began, and it waits for what may still come) or '' (for ttl)
-- ARGV[4] the deadline of a sleep, or how long a wait is kept; ms, '' for none
-- ARGV[5] how long a failed workflow is kept, ms; '' for ttl at least
-- ARGV[6] how many records the pass knows of; '' when it does not say
-- returns 1; 0 when the claim is another's; 2 when the server has less than the pass knows of
-- errors  none of its own
-- @include now
-- @include keep
local pass, records, token, ttl, state, until_when = KEYS[1], KEYS[2], ARGV[1], tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4])
local known = tonumber(ARGV[6] or '') or 0
local held = redis.call('HMGET', pass, 'token', 'seen')
if held[1] ~= token and (known == 0 or tonumber(held[1] or '0') > tonumber(token)) then return 0 end
local there = known > 0 and redis.call('HLEN', records) or 0
local behind = there < known
if held[1] ~= token then
  if not held[1] and there == 0 then
    redis.call('HDEL', pass, 'due') -- nothing: out of memory, a script may only go on after a write that needs none
    redis.call('HSET', pass, 'token', token, 'until', 0, 'alive', 0, 'state', 'runs', 'seen', known)
    redis.call('PEXPIRE', pass, string.format('%.0f', 2 * ttl))
  end
  return 2
end
if behind then state = '' end
local lives = ttl
if state == 'sleeps' then lives = math.max(0, until_when - now_ms()) + ttl end
if state == 'waits' and until_when then lives = until_when end
if state == 'failed' then lives = tonumber(ARGV[5]) or ttl end
redis.call('HDEL', pass, 'due') -- first, again
if state == 'waits' and not until_when then
  redis.call('PERSIST', pass)
  redis.call('PERSIST', records)
elseif state == '' or state == 'cancelled' or (state == 'failed' and ARGV[5] == '') then
  keep(pass, lives + ttl)
  keep(records, lives)
else
  redis.call('PEXPIRE', pass, string.format('%.0f', lives + ttl))
  redis.call('PEXPIRE', records, string.format('%.0f', lives))
end
local said = {'until', 0, 'alive', 0}
if state ~= '' then
  said[5], said[6] = 'state', state == 'cancelled' and 'waits' or state
  if not held[2] then said[7], said[8] = 'seen', redis.call('HLEN', records) end
  if state == 'sleeps' then said[#said + 1], said[#said + 2] = 'due', string.format('%.0f', until_when) end
end
redis.call('HSET', pass, unpack(said))
return behind and 2 or 1
