-- Makes a workflow visible now, over a deadline and over a delivery that is out. One that is visible keeps its turn.
-- Rings the bell in any case: it may have been rung for a reader that is gone.
-- KEYS[1] schedule  KEYS[2] bell
-- ARGV[1] workflow  ARGV[2] now, ms; '' for the server's clock
-- returns 1
-- errors  none of its own
-- @include now
-- @include bell
local now = tonumber(ARGV[2]) or now_ms()
local score = tonumber(redis.call('ZSCORE', KEYS[1], ARGV[1]) or '')
local visible = score and score <= now and score == math.floor(score)
if not visible then redis.call('ZADD', KEYS[1], string.format('%.0f', now), ARGV[1]) end
ring_bell(KEYS[2])
return 1
