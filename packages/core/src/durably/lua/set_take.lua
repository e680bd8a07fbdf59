-- Takes the workflows that have been visible longest, and hides each for a lease. Its score becomes the receipt.
-- A call that is sent twice is told the same: the reader's last answer is kept for a while.
-- KEYS[1] schedule  KEYS[2] receipts counter  KEYS[3] the reader's last answer  KEYS[4] those that slept
-- ARGV[1] lease, ms  ARGV[2] now, ms; '' for the server's clock  ARGV[3] nonce  ARGV[4] the answer's life, ms
-- ARGV[5] how many at most
-- A receipt of a wakeup out of a sleep is told with an 's' before it.
-- returns {workflow, receipt, ...}; empty when none is visible
-- errors  none of its own
-- @include now
-- @include receipt
local schedule, answer, nonce = KEYS[1], KEYS[3], ARGV[3]
local last = redis.call('GET', answer)
if last then
  local said, taken = string.match(last, '^(%w+)|(.*)$')
  if said == nonce then return cjson.decode(taken) end
end
local now = tonumber(ARGV[2]) or now_ms()
local due = redis.call('ZRANGEBYSCORE', schedule, '-inf', string.format('%.0f', now), 'LIMIT', 0, ARGV[5])
if #due == 0 then return {} end
local taken, scores = {}, {}
local slept = redis.call('HMGET', KEYS[4], unpack(due))
for n, workflow in ipairs(due) do
  local receipt = new_receipt(KEYS[2], now + tonumber(ARGV[1]))
  taken[2 * n - 1], taken[2 * n] = workflow, (slept[n] and 's' or '') .. receipt
  scores[2 * n - 1], scores[2 * n] = receipt, workflow
end
redis.call('ZADD', schedule, unpack(scores))
redis.call('SET', answer, nonce .. '|' .. cjson.encode(taken), 'PX', ARGV[4])
return taken
