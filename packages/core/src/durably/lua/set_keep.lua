-- Hides a delivery for longer, under a new receipt, if nothing has rescheduled it since.
-- A call that is sent twice is told the same receipt. Where asked to, it rings the bell for a moment that is the first
-- to come and near (see set_suspend).
-- KEYS[1] schedule  KEYS[2] receipts counter  KEYS[3] answers  KEYS[4] bell
-- ARGV[1] workflow  ARGV[2] receipt  ARGV[3] for how long, ms  ARGV[4] now, ms; '' for the server's clock
-- ARGV[5] nonce  ARGV[6] answers' life, ms  ARGV[7] '1' to ring
-- returns the new receipt; nil when the delivery is not held
-- errors  none of its own
-- @include now
-- @include receipt
-- @include bell
-- @include near
local schedule, answers, workflow = KEYS[1], KEYS[3], ARGV[1]
local score = redis.call('ZSCORE', schedule, workflow)
if not score then return false end
local field = 'w:' .. workflow
local last = redis.call('HGET', answers, field)
if last then
  local said, receipt = string.match(last, '^(%w+)|(.*)$')
  if said == ARGV[5] and tonumber(receipt) == tonumber(score) then return receipt end
end
if tonumber(score) ~= tonumber(ARGV[2]) then return false end
local now = tonumber(ARGV[4]) or now_ms()
local receipt = new_receipt(KEYS[2], now + tonumber(ARGV[3]))
redis.call('ZADD', schedule, receipt, workflow)
redis.call('HSET', answers, field, ARGV[5] .. '|' .. receipt)
redis.call('PEXPIRE', answers, ARGV[6])
if ARGV[7] == '1' and is_next(schedule, workflow, tonumber(ARGV[3]) * 1000) then ring_bell(KEYS[4]) end
return receipt
