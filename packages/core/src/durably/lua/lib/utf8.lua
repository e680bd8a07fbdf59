-- Whether `text` is UTF-8. The client reads the records of a workflow as text, all at once.
local function is_utf8(text)
  if not string.find(text, '[\128-\255]') then return true end
  local i, n = 1, #text
  while i <= n do
    local c = string.byte(text, i)
    local more = c < 128 and 0 or c >= 194 and c < 224 and 1 or c >= 224 and c < 240 and 2 or c >= 240 and c < 245 and 3
    if not more or i + more > n then return false end
    for j = i + 1, i + more do
      local d = string.byte(text, j)
      if d < 128 or d > 191 then return false end
    end
    if more > 1 then
      local d = string.byte(text, i + 1)
      if c == 224 and d < 160 or c == 237 and d > 159 or c == 240 and d < 144 or c == 244 and d > 143 then return false end
    end
    i = i + more + 1
  end
  return true
end
