"""What a write must have reached before its call returns: the levels, the command that asks, what its reply says. Pure.

`docs/durability.md` says what each level is worth.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Literal

from durably.signals import NotDurable

Durability = Literal["memory", "replicas", "disk"]
"""`"memory"`: the server accepted the write. `"replicas"`: other servers have it. `"disk"`: the append-only file of
the server holds it, synced."""

LEVELS: tuple[Durability, ...] = ("memory", "replicas", "disk")

ACKNOWLEDGED_WITHIN = timedelta(seconds=2)
"""How long a write waits for its acknowledgement, unless told otherwise: with `appendfsync everysec` the next sync may be
a second away."""


def check_durability(durability: Durability) -> Durability:
    """Return `durability`, or raise a `ValueError` if it is none of the levels."""
    if durability not in LEVELS:
        raise ValueError(f"durability must be 'memory', 'replicas' or 'disk', not {durability!r}")
    return durability


def check_replicas(replicas: int | None, durability: Durability) -> int:
    """How many replicas a level asks for: `replicas`, or where unset one for `"replicas"` and none for `"disk"`.

    Raises `ValueError` for a number below 0, or below 1 for `"replicas"`.
    """
    least = 1 if durability == "replicas" else 0
    if replicas is None:
        return least
    if isinstance(replicas, bool) or not isinstance(replicas, int) or replicas < least:
        raise ValueError(f"replicas must be {least} or more for durability={durability!r}, not {replicas!r}")
    return replicas


@dataclass(frozen=True, slots=True)
class Ack:
    """An acknowledgement that a write asks for. Two that ask for the same are equal, whatever they are of.

    `replicas`: how many. `within`: how long to wait, in ms. `workflow`, `key`: whose write it is.
    """

    durability: Durability
    replicas: int
    within: int
    workflow: str = field(default="", compare=False)
    key: str = field(default="", compare=False)

    @property
    def command(self) -> tuple[str | int, ...]:
        """What asks for it. To be sent after the write on the write's own connection: it covers no other's."""
        if self.durability == "replicas":
            return ("WAIT", self.replicas, self.within)
        return ("WAITAOF", 1, self.replicas, self.within)

    @property
    def trial(self) -> tuple[str | int, ...]:
        """What asks for nothing, and so tells whether the server can be asked at all."""
        return ("WAIT", 0, 1) if self.durability == "replicas" else ("WAITAOF", 1, 0, 1)

    def missing(self, reply: Any) -> NotDurable | None:
        """What the command's reply lacks; `None` where it says that all is there."""
        local, count = (1, reply) if self.durability == "replicas" else (0, 0)
        if isinstance(reply, Exception):
            return self._error(f"the server says: {reply}")
        if self.durability == "disk":
            local, count = (int(one) for one in reply)
        if local >= 1 and int(count) >= self.replicas:
            return None
        reached = [] if self.durability == "replicas" else [f"{'' if local else 'not '}on this server's disk"]
        if self.replicas:
            reached.append(f"{_replicas(int(count))} of {self.replicas}")
        return self._error(", ".join(reached))

    def _error(self, reached: str) -> NotDurable:
        wanted = [] if self.durability == "replicas" else ["this server's disk"]
        if self.replicas:
            wanted.append(_replicas(self.replicas))
        asked = f"{' and '.join(wanted)} within {self.within / 1000:g} s"
        return NotDurable(self.workflow, self.key, asked, reached)


def _replicas(count: int) -> str:
    return f"{count} replica" if count == 1 else f"{count} replicas"


def unsynced(info: Mapping[str, Any], appendfsync: str | None) -> str | None:
    """Why `"disk"` would promise what this server does not keep; `None` where it keeps it.

    `info`: what INFO says. `appendfsync`: the setting, `None` where it may not be read.
    """
    if not int(info.get("aof_enabled", 0)):
        return "its append-only file is off (appendonly no)"
    if appendfsync == "always":
        return None
    if appendfsync == "no":
        return "it never syncs its append-only file by itself (appendfsync no)"
    valkey = str(info.get("valkey_version", ""))
    version = str(info.get("redis_version", ""))
    if valkey or version.startswith("7.4."):
        name = f"Valkey {valkey}" if valkey else f"Redis {version}"
        setting = "appendfsync everysec" if appendfsync else "an appendfsync that may not be read"
        return f"with {setting}, {name} answers WAITAOF before the file is synced: set appendfsync always"
    return None
