-- Drops those of the entries just read that a cancellation's mark holds back.
-- KEYS[1] ready stream  KEYS[2] marks
-- ARGV[1] group  ARGV[2] entry  ARGV[3] its workflow, and so on, by pairs
-- returns the entries dropped
-- errors  none of its own
-- @include ids
-- @include marks
local dropped = {}
for i = 2, #ARGV, 2 do
  if is_cancelled(KEYS[2], ARGV[i + 1], ARGV[i]) then
    drop(KEYS[1], ARGV[1], ARGV[i])
    dropped[#dropped + 1] = ARGV[i]
  end
end
return dropped
