-- Whether stream id `a` comes before `b`. Decimal text, compared by length and then as text: exact for 64 bits,
-- where Lua's numbers are not. What follows a second dash is ignored.
local function before(a, b)
  local am, as = string.match(a, '^(%d+)-(%d+)')
  local bm, bs = string.match(b, '^(%d+)-(%d+)')
  if #am ~= #bm then return #am < #bm end
  if am ~= bm then return am < bm end
  if #as ~= #bs then return #as < #bs end
  return as < bs
end
