-- Lets a key that is there live for `ttl` ms more at the least; never shortens what it has. One without an expiry keeps
-- none, unless it is new.
local function keep(key, ttl, new)
  local left = redis.call('PTTL', key)
  if new or (left >= 0 and left < ttl) then redis.call('PEXPIRE', key, string.format('%.0f', ttl)) end
end
