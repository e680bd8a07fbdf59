-- Makes a workflow visible now, over a deadline and over a delivery that is out. One that is visible keeps its turn.
-- KEYS[1] schedule
-- ARGV[1] workflow  ARGV[2] now, ms; '' for the server's clock
-- returns 1
-- errors  none of its own
-- @include now
local now = tonumber(ARGV[2]) or now_ms()
local score = tonumber(redis.call('ZSCORE', KEYS[1], ARGV[1]) or '')
if score and score <= now and score == math.floor(score) then return 1 end
redis.call('ZADD', KEYS[1], string.format('%.0f', now), ARGV[1])
return 1
