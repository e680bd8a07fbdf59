"""The sweep's scripts and what their replies mean. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from durably.keys import pass_key, workflow_key
from durably.lua import read_script
from durably.queue_scripts import as_text

LOOK = read_script("sweep_look")
FORGIVE = read_script("sweep_forgive")
STREAM_QUEUED = read_script("stream_queued")
STREAM_MEND = read_script("stream_mend")
STREAM_PARK_SLEEPER = read_script("stream_park_sleeper")
STREAM_CONSUMERS = read_script("stream_consumers")
SET_MEND = read_script("set_mend")
SET_PARK_SLEEPER = read_script("set_park_sleeper")

SCANNED = 500
"""How many slots of the keyspace one SCAN looks at."""

PAGE = 500
"""How many entries of the queue one call looks at."""

PAGES = 200
"""How many such calls one sweep makes at the most: what cannot be told is left for the next."""


@dataclass(frozen=True)
class Look:
    """What the look script told of a workflow; `moment`, `due`, `now` in ms."""

    kind: str
    moment: int
    there: int
    due: int | None
    now: int

    @property
    def asks(self) -> bool:
        """Whether a pass, or a sleeper, is owed."""
        return self.kind in ("news", "overdue", "sleeping", "lost")


def read_look(reply: Any) -> Look:
    """The look script's reply."""
    kind, moment, there, due, now = reply
    text = as_text(due)
    return Look(str(as_text(kind)), int(moment), int(there), int(text) if text else None, int(now))


def look_keys(namespace: str, workflow: str) -> list[str]:
    """The look script's keys."""
    return [pass_key(namespace, workflow), workflow_key(namespace, workflow)]


def pattern(namespace: str) -> str:
    """What SCAN is to match: the records of every workflow of a namespace."""
    escaped = "".join(f"\\{one}" if one in "*?[]^\\" else one for one in namespace)
    return escaped + ":{*}"


def workflow_of(namespace: str, key: Any) -> str | None:
    """The workflow whose records are under `key`; `None` for a key of another kind, and for an id with braces: it could
    be either."""
    text = str(as_text(key))
    workflow = text[len(namespace) + 2 : -1]
    if not workflow or "{" in workflow or "}" in workflow or workflow_key(namespace, workflow) != text:
        return None
    return workflow


def score_of(due: int) -> str:
    """A deadline in ms as unix seconds."""
    return f"{due // 1000}.{due % 1000:03d}"


def pairs_of(reply: Any) -> tuple[str, list[tuple[str, str]]]:
    """The reply of an HSCAN or a ZSCAN, in any of the shapes that clients give: the cursor, and pairs of text."""
    cursor, found = reply
    if hasattr(found, "items"):
        rows: list[Any] = list(found.items())
    elif found and isinstance(found[0], (list, tuple)):
        rows = list(found)
    else:
        rows = list(zip(found[::2], found[1::2], strict=True))
    return str(as_text(cursor)), [(str(as_text(name)), _number(value)) for name, value in rows]


def _number(value: Any) -> str:
    return repr(value) if isinstance(value, float) else str(as_text(value))
