-- Rings for what has become visible, and tells how long it is until more will be.
-- KEYS[1] schedule  KEYS[2] bell
-- ARGV[1] now, ms; '' for the server's clock
-- returns µs until the next score that has not come; -1 without one
-- errors  none of its own
-- @include now
-- @include left
-- @include bell
local given = tonumber(ARGV[1])
local now = string.format('%.0f', given or now_ms())
if #redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, 1) > 0 then ring_bell(KEYS[2]) end
local coming = redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. now, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
if not coming[2] then return -1 end
return left_until(coming[2], given)
