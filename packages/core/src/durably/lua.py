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


def splice(source: str, effect: str) -> str:
    """`source` with its effect mark replaced by `effect`. Raises `ValueError` unless there is exactly one such mark."""
    if source.count(EFFECT) != 1:
        raise ValueError(f"a script to splice into has exactly one mark {EFFECT!r}")
    return source.replace(EFFECT, effect)
