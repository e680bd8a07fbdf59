-- A receipt: the moment `at` (ms) plus a fraction from a counter, so that no two takes share one. Every other score
-- is whole; .5 is left to those who write only that.
local function new_receipt(counter, at)
  local n = redis.call('INCR', counter) % 4094 + 1
  if n >= 2048 then n = n + 1 end
  return string.format('%.17g', at + n / 4096)
end
