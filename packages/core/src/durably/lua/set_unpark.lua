-- Takes a workflow off the list of those that are parked, makes it visible, and rings the bell.
-- KEYS[1] schedule  KEYS[2] parked  KEYS[3] the answer to this call  KEYS[4] bell
-- ARGV[1] workflow  ARGV[2] how long the answer is kept, ms  ARGV[3] now, ms; '' for the server's clock
-- returns 1; 0 when it was not parked
-- errors  none of its own
-- @include now
-- @include unparked
-- @include bell
local was, before = unpark(KEYS[2], KEYS[3], ARGV[1], ARGV[2])
local now = tonumber(ARGV[3]) or now_ms()
if was and not before then
  redis.call('ZADD', KEYS[1], 'LT', string.format('%.0f', now), ARGV[1])
  ring_bell(KEYS[4])
end
return was and 1 or 0
