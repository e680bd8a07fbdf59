-- How long it is until `score` (ms) has come, in µs, 1 at the least; by the clock `given` (ms), or the server's. Who
-- waits so long finds it visible.
local function left_until(score, given)
  local now
  if given then
    now = given * 1000
  else
    local t = redis.call('TIME')
    now = tonumber(t[1]) * 1000000 + tonumber(t[2])
  end
  return math.max(1, math.min(9e15, math.ceil(tonumber(score)) * 1000 - now))
end
