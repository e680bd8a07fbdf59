-- A sweep asks for a pass over a workflow, now or at its deadline, unless it was cancelled since the moment that the
-- sweep goes by, or the queue holds it: for a pass now a deadline to come does not count.
-- KEYS[1] schedule  KEYS[2] dropped  KEYS[3] those that slept
-- ARGV[1] workflow  ARGV[2] that moment, ms  ARGV[3] deadline, ms; '' for now  ARGV[4] now, ms; '' for the server's clock
-- returns 1 when the queue holds what was asked for; 0 when nothing was asked for
-- errors  none of its own
-- @include now
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
if score and score <= now then return 1 end
redis.call('ZADD', KEYS[1], string.format('%.0f', now), ARGV[1])
return 1
