-- Takes the workflow that has been visible longest, and hides it for a lease. Its score becomes the receipt.
-- A call that is sent twice is told the same: the reader's last answer is kept for a while.
-- KEYS[1] schedule  KEYS[2] receipts counter  KEYS[3] the reader's last answer
-- ARGV[1] lease, ms  ARGV[2] now, ms; '' for the server's clock  ARGV[3] nonce  ARGV[4] the answer's life, ms
-- returns {workflow, receipt}; nil when none is visible
-- errors  none of its own
-- @include now
-- @include receipt
local schedule, answer, nonce = KEYS[1], KEYS[3], ARGV[3]
local last = redis.call('GET', answer)
if last then
  local said, receipt, workflow = string.match(last, '^(%w+)|([^|]+)|(.*)$')
  if said == nonce then return {workflow, receipt} end
end
local now = tonumber(ARGV[2]) or now_ms()
local due = redis.call('ZRANGEBYSCORE', schedule, '-inf', string.format('%.0f', now), 'LIMIT', 0, 1)
if #due == 0 then return false end
local receipt = new_receipt(KEYS[2], now + tonumber(ARGV[1]))
redis.call('ZADD', schedule, receipt, due[1])
redis.call('SET', answer, nonce .. '|' .. receipt .. '|' .. due[1], 'PX', ARGV[4])
return {due[1], receipt}
