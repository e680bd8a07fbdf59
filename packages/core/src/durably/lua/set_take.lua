-- Takes the workflows that have been visible longest, and hides each for a lease. Its score becomes the receipt.
-- A call that is sent twice is told the same: the reader's last answer is kept for a while.
-- Rings the bell where it leaves some that are visible. A receipt of a wakeup out of a sleep is told with an 's' before
-- it.
-- KEYS[1] schedule  KEYS[2] receipts counter  KEYS[3] the reader's last answer  KEYS[4] bell  KEYS[5] those that slept
-- ARGV[1] lease, ms  ARGV[2] now, ms; '' for the server's clock  ARGV[3] nonce  ARGV[4] the answer's life, ms
-- ARGV[5] how many at most
-- returns {workflow, receipt, ..., left}: `left` is how long it is until the next one will be visible, µs, -1 for never;
--         0 when there are more, or when it is an answer that is repeated
-- errors  none of its own
-- @include now
-- @include receipt
-- @include left
-- @include bell
local schedule, answer, nonce = KEYS[1], KEYS[3], ARGV[3]
local last = redis.call('GET', answer)
if last then
  local said, taken = string.match(last, '^(%w+)|(.*)$')
  if said == nonce then
    local again = cjson.decode(taken)
    again[#again + 1] = 0
    return again
  end
end
local given, most = tonumber(ARGV[2]), tonumber(ARGV[5])
local now = given or now_ms()
local due = redis.call('ZRANGEBYSCORE', schedule, '-inf', string.format('%.0f', now), 'LIMIT', 0, most + 1)
local more = table.remove(due, most + 1)
local taken, scores = {}, {}
local slept = #due > 0 and redis.call('HMGET', KEYS[5], unpack(due))
for n, workflow in ipairs(due) do
  local receipt = new_receipt(KEYS[2], now + tonumber(ARGV[1]))
  taken[2 * n - 1], taken[2 * n] = workflow, (slept[n] and 's' or '') .. receipt
  scores[2 * n - 1], scores[2 * n] = receipt, workflow
end
if #due > 0 then
  redis.call('ZADD', schedule, unpack(scores))
  redis.call('SET', answer, nonce .. '|' .. cjson.encode(taken), 'PX', ARGV[4])
end
local left = 0
if more then
  ring_bell(KEYS[4])
else
  local first = redis.call('ZRANGE', schedule, 0, 0, 'WITHSCORES')
  left = first[2] and left_until(first[2], given) or -1
end
taken[#taken + 1] = left
return taken
