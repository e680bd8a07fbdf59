-- What a sweep has to know of one workflow. Changes nothing.
-- KEYS[1] the claim's hash  KEYS[2] the records' hash
-- ARGV[1] for how long nothing must have happened to it, ms
-- returns {kind, moment, how many records there are, deadline or '', now}, times in ms: the moment is that of the newest
--   thing that asks for a pass. Kinds: 'live' (a pass runs), 'unknown' (nothing at all),
--   'gone' (records are missing), 'news' (it waits or sleeps, and there is something that its last pass did not know),
--   'overdue', 'sleeping', 'lost' (no pass has said what it waits for), 'still' (nothing is to be done)
-- errors  none of its own
-- @include now
local held = redis.call('HMGET', KEYS[1], 'token', 'until', 'alive', 'state', 'seen', 'due', 'woken')
local now, there, settled = now_ms(), redis.call('HLEN', KEYS[2]), tonumber(ARGV[1])
local function said(kind, moment, due)
  if moment == math.huge then kind, moment = 'still', now end
  return {kind, string.format('%.0f', moment), there, due and string.format('%.0f', due) or '', string.format('%.0f', now)}
end
local token, alive, state, seen = tonumber(held[1] or '0'), tonumber(held[3] or '0'), held[4], tonumber(held[5] or '0')
if math.min(tonumber(held[2] or '0'), alive) > now then return said('live', token) end
if there == 0 and redis.call('EXISTS', KEYS[1]) == 0 then return said('unknown', 0) end
if state and state ~= 'ended' and there < seen then return said('gone', token) end
if there == 0 or state == 'ended' or state == 'failed' then return said('still', token) end

local function newest()
  local last = token
  for _, record in ipairs(redis.call('HVALS', KEYS[2])) do
    local at = string.match(record, '^%d+:(%d+):')
    if not at then return math.huge end -- no workflow of ours: nothing is done
    last = math.max(last, tonumber(at))
  end
  return last
end
if state == 'sleeps' or state == 'waits' then
  if there > seen then
    local moment = newest()
    if moment <= now - settled then return said('news', moment) end
    return said('still', moment)
  end
  if state == 'waits' then return said('still', token) end
  local due = tonumber(held[6] or '0')
  if due <= now - settled then return said('overdue', token, due) end
  if due <= now then return said('still', token) end
  return said('sleeping', token, due)
end
if not state and held[7] == tostring(there) then return said('still', token) end -- a sweep has woken it for these
local moment = newest()
if math.max(moment, alive) > now - settled then return said('still', moment) end
return said('lost', moment)
