"""What a workflow starts or sends: how it is said in a record. Pure.

Where one script does it all, the step's record is what the step returns, as text. Elsewhere it is the intention, a
mapping, and what the step returns is recorded under a second name once it was delivered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from durably.codec import CheckpointCodec
from durably.keys import check_id, check_key
from durably.records import carry
from durably.values import inbox_key

FILED = inbox_key(99_999_999_999_999_999_999)
"""Stands in an encoding for the key of a message that is not filed yet."""

_OTHER = inbox_key(12_345_678_901_234_567_890)


def sent_key(key: str) -> str:
    """The step name under which it is recorded that what step `key` sends was delivered."""
    return f"{key}:sent"


@dataclass(frozen=True)
class Intention:
    """What is to be sent. `under`: the step name of a started workflow's input, `None` for a message. `once`: its name."""

    to: str
    under: str | None
    value: object
    once: str

    def plain(self) -> dict[str, object]:
        """As a value that is recorded."""
        return {"to": self.to, "as": self.under, "value": self.value, "once": self.once}


def check_intention(to: str, under: str | None) -> None:
    """Raise `TypeError` or `ValueError` for an id or an input's step name that cannot be."""
    check_id(to)
    if under is not None:
        check_key(under)


def intended(workflow: str, key: str, recorded: object) -> Intention | str:
    """What step `key` is recorded as: an intention, or what it returned. Raises `ValueError` for anything else."""
    if isinstance(recorded, str):
        return recorded
    if isinstance(recorded, dict):
        to, under, once = (recorded.get(name) for name in ("to", "as", "once"))
        if isinstance(to, str) and isinstance(once, str) and (under is None or isinstance(under, str)):
            return Intention(to, under, recorded.get("value"), once)
    raise ValueError(
        f"step {key!r} of workflow {workflow!r} is recorded as {recorded!r}, which is nothing that was sent"
    )


def can_fill(codec: CheckpointCodec[Any], workflow: str, key: str) -> bool:
    """Whether a message's key can be put into what `codec` gives for `FILED`, by one who knows nothing of the codec."""
    encoding, _ = carry(codec, workflow, key, FILED, None)
    mark: Any = FILED.encode() if isinstance(encoding, bytes) else FILED
    other: Any = _OTHER.encode() if isinstance(encoding, bytes) else _OTHER
    if encoding.count(mark) != 1:
        return False
    try:
        back: object = (getattr(codec, "for_step", lambda _: codec)(key)).decode(
            encoding.replace(mark, other)
        )
    except (TypeError, ValueError, RecursionError):
        return False
    return back == _OTHER
