"""The `.lua` files as text: read, includes expanded, an effect spliced in. Pure, done once per script."""

from __future__ import annotations

import re
from functools import lru_cache
from importlib.resources import files

_INCLUDE = re.compile(r"^-- @include (\w+)[ \t]*$", re.MULTILINE)
EFFECT = "-- @effect"
"""What an effect's source takes the place of."""


@lru_cache(maxsize=None)
def read_script(name: str) -> str:
    """The source of `lua/<name>.lua` with each `-- @include fragment` line replaced by `lua/lib/<fragment>.lua`.

    Raises `FileNotFoundError` for an unknown name, `ValueError` for a fragment included twice.
    """
    folder = files("durably") / "lua"
    seen: set[str] = set()

    def fragment(found: re.Match[str]) -> str:
        wanted = found[1]
        if wanted in seen:
            raise ValueError(f"{name}.lua includes {wanted!r} twice")
        seen.add(wanted)
        return (folder / "lib" / f"{wanted}.lua").read_text(encoding="utf-8")

    return _INCLUDE.sub(fragment, (folder / f"{name}.lua").read_text(encoding="utf-8"))


def in_one(first: str, second: str) -> str:
    """Two scripts as one, which returns what both do; the second runs unless the first refuses.

    KEYS and ARGV are those of both, one after the other; ARGV begins with how many of each are the first's.
    """
    return f"""-- Two acts as one step.
local first = function(KEYS, ARGV)
{first}
end
local second = function(KEYS, ARGV)
{second}
end
local function part(list, from, to)
  local taken = {{}}
  for i = from, to do taken[#taken + 1] = list[i] end
  return taken
end
local keys, args = tonumber(ARGV[1]), tonumber(ARGV[2])
local said = first(part(KEYS, 1, keys), part(ARGV, 3, 2 + args))
if type(said) == 'table' and said.err then return said end
local told = second(part(KEYS, keys + 1, #KEYS), part(ARGV, 3 + args, #ARGV))
return {{said or false, told or false}}
"""


def in_step(look: str, ring: str, send: str, write: str) -> str:
    """Four scripts as one step of a pass: `look` at its record, and unless there is one, `ring`, `send` and `write` it.

    KEYS are those of all four, one after the other. ARGV begins with how many keys and arguments each of them has,
    then a mark: where it stands in the second argument of `write`, what `send` said takes its place. Then come the
    arguments of all. Returns `{what was recorded, nil}`, or `{nil, what send said}`; errors are those of the four.
    """
    named = "\n".join(
        f"local {name} = function(KEYS, ARGV)\n{source}\nend"
        for name, source in (("look", look), ("ring", ring), ("send", send), ("write", write))
    )
    return f"""-- A step's record and what it sends, as one step.
{named}
local keys_from, args_from = 0, 9
local function request(n)
  local keys, args = {{}}, {{}}
  for i = 1, tonumber(ARGV[2 * n - 1]) do keys[i] = KEYS[keys_from + i] end
  for i = 1, tonumber(ARGV[2 * n]) do args[i] = ARGV[args_from + i] end
  keys_from, args_from = keys_from + #keys, args_from + #args
  return keys, args
end
local stored = look(request(1))
if type(stored) == 'table' then return stored end
if stored then return {{stored, false}} end
ring(request(2)) -- first: a wakeup too many is harmless, if what follows fails
local said = send(request(3))
if type(said) == 'table' and said.err then return said end
local keys, args = request(4)
local from, to = string.find(args[2], ARGV[9], 1, true)
if ARGV[9] ~= '' and from then args[2] = string.sub(args[2], 1, from - 1) .. said .. string.sub(args[2], to + 1) end
local late = write(keys, args)
if type(late) == 'table' then return late end
return {{false, said or false}}
"""


def splice(source: str, effect: str) -> str:
    """`source` with its effect mark replaced by `effect`. Raises `ValueError` unless there is exactly one such mark."""
    if source.count(EFFECT) != 1:
        raise ValueError(f"a script to splice into has exactly one mark {EFFECT!r}")
    return source.replace(EFFECT, effect)
