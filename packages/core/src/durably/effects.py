"""Work that the server does itself, in the same step as the record of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LuaEffect:
    """An effect for `transact`: the body of a Lua script.

    `source` sees `KEYS` and `ARGV` from 1, and returns text: the step's result in the store's encoding (with the
    default codec JSON text, for example `return cjson.encode(...)`). `keys` must lie in the workflow's own slot,
    which on a cluster means that they carry the tag `{id}`. `args` are passed as text.

    Check before writing: an effect that fails before its first write has not happened, one that fails after it
    leaves the step torn (`EffectTorn`).
    """

    source: str
    keys: tuple[str, ...] = ()
    args: tuple[str | int | float | bytes, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.source, str) or not self.source.strip():
            raise ValueError("an effect's source must be Lua text, and not empty")
        if isinstance(self.keys, (str, bytes)) or isinstance(self.args, (str, bytes)):
            raise TypeError("an effect's keys and args are tuples; write (value,) for a single one")
        object.__setattr__(self, "keys", tuple(self.keys))
        object.__setattr__(self, "args", tuple(map(_plain, self.args)))


def _plain(arg: object) -> str | int | float | bytes:
    """`arg` as its plain type: an enumeration's member is passed as its value, not as its name."""
    if isinstance(arg, str):
        return str.__str__(arg)
    if isinstance(arg, bytes):
        return bytes(arg)
    if isinstance(arg, int) and not isinstance(arg, bool):
        return int.__int__(arg)
    if isinstance(arg, float):
        return float.__float__(arg)
    raise TypeError(f"an effect's args are text, numbers or bytes, not {arg!r}")
