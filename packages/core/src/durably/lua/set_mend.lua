-- A sweep asks for a pass over a workflow, now or at its deadline, unless it was cancelled since the moment that the
-- sweep goes by, or the queue holds it: for a pass now a deadline to come does not count. Rings the bell for what is
-- visible; a deadline is found by the readers, which look once a second.
-- KEYS[1] schedule  KEYS[2] dropped  KEYS[3] those that slept  KEYS[4] bell
-- ARGV[1] workflow  ARGV[2] that moment, ms  ARGV[3] deadline, ms; '' for now  ARGV[4] now, ms; '' for the server's clock
-- returns 1 when the queue holds what was asked for; 0 when nothing was asked for
-- errors  none of its own
-- @include now
-- @include bell
local dropped = redis.call('HGET', KEYS[2], ARGV[1])
if dropped and tonumber(dropped) >= tonumber(ARGV[2]) then return 0 end
local now = tonumber(ARGV[4]) or now_ms()
local score = tonumber(redis.call('ZSCORE', KEYS[1], ARGV[1]) or '')
if ARGV[3] ~= '' then
  if score then return score == tonumber(ARGV[3]) and 1 or 0 end
  redis.call('ZADD', KEYS[1], ARGV[3], ARGV[1])
  redis.call('HSET', KEYS[3], ARGV[1], '1')
  return 1
end
if score and score ~= math.floor(score) then return 0 end
if not score or score > now then redis.call('ZADD', KEYS[1], string.format('%.0f', now), ARGV[1]) end
ring_bell(KEYS[4])
return 1
