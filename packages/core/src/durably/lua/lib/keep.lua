-- Lets a key that is there live for `ttl` ms more at the least; never shortens what it has.
local function keep(key, ttl)
  local left = redis.call('PTTL', key)
  if left >= 0 and left < ttl then redis.call('PEXPIRE', key, string.format('%.0f', ttl)) end
end
