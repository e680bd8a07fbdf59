-- The stream id that follows `id`.
local function after(id)
  local ms, seq = string.match(id, '^(%d+)-(%d+)')
  if seq == '18446744073709551615' then return id end
  local i = #seq
  while i > 0 and string.sub(seq, i, i) == '9' do i = i - 1 end
  local zeros = string.rep('0', #seq - i)
  if i == 0 then return ms .. '-1' .. zeros end
  return ms .. '-' .. string.sub(seq, 1, i - 1) .. string.char(string.byte(seq, i) + 1) .. zeros
end
