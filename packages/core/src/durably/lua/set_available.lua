-- How many workflows are visible, those whose lease has ended included.
-- KEYS[1] schedule
-- ARGV[1] now, ms; '' for the server's clock  ARGV[2] how many to count at most
-- returns the count
-- errors  none of its own
-- @include now
local now = tonumber(ARGV[1]) or now_ms()
return #redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now), 'LIMIT', 0, ARGV[2])
