-- Puts a workflow on the list of those that are parked: why, and when (ms).
local function park(parked, workflow, reason)
  local t = redis.call('TIME')
  local at = string.format('%.0f', tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000))
  redis.call('HSET', parked, workflow, '{"reason":' .. cjson.encode(reason) .. ',"at":' .. at .. '}')
end
