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


def splice(source: str, effect: str) -> str:
    """`source` with its effect mark replaced by `effect`. Raises `ValueError` unless there is exactly one such mark."""
    if source.count(EFFECT) != 1:
        raise ValueError(f"a script to splice into has exactly one mark {EFFECT!r}")
    return source.replace(EFFECT, effect)
