-- The workflow that an entry's fields name; nil where they name none.
local function named(fields)
  for i = 1, #fields, 2 do
    if fields[i] == 'workflow' and fields[i + 1] ~= '' then return fields[i + 1] end
  end
end
-- Whether an entry has a field.
local function has(fields, name)
  for i = 1, #fields, 2 do
    if fields[i] == name then return true end
  end
  return false
end
