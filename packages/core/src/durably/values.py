"""The values that stores, runner and worker hand each other: frozen, and the same in both flavours."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Generic, TypeVar

T_co = TypeVar("T_co", covariant=True)

LEASE = timedelta(minutes=1)
"""How long one sign of life keeps a claim or a delivery."""

BUDGET = timedelta(minutes=5)
"""How long one pass may take in all, unless a step asks for more with `within`."""

INBOX = "inbox:"
"""The key space of a workflow's messages, which only `append` may write to."""

CANCELLED = "cancelled"
"""What a pass came to whose wakeup was cancelled before it began: nothing is to be done until something new comes."""

INPUT = "input"
"""The step name under which a workflow's input is recorded, unless its starter says otherwise."""

INBOX_DIGITS = 20
"""How many digits a message's number has in its key, so that keys sort as numbers do."""


def inbox_key(n: int) -> str:
    """The key of message number `n` (0 or more)."""
    if n < 0:
        raise ValueError(f"a message's number is 0 or more, not {n}")
    return f"{INBOX}{n:0{INBOX_DIGITS}d}"


def now_utc() -> datetime:
    """This moment, aware, in UTC."""
    return datetime.now(timezone.utc)


@dataclass(frozen=True, slots=True)
class Pass:
    """The right to run one pass over `workflow`. A higher `token` fences every lower one."""

    workflow: str
    token: int


@dataclass(frozen=True, slots=True)
class Entry(Generic[T_co]):
    """One message of a workflow's inbox, and the key that the store filed it under."""

    key: str
    value: T_co


@dataclass(frozen=True, slots=True)
class Written:
    """A recorded value, and the server's time (aware, UTC) of the write that won."""

    value: object
    at: datetime


@dataclass(frozen=True, slots=True)
class Recorded:
    """What is stored after a write, decoded, and whether the stored encoding is the writer's own."""

    value: object
    first: bool


@dataclass(frozen=True, slots=True)
class Delivery:
    """One wakeup of `workflow`, taken and not yet answered for. `receipt` is the scheduler's name for it.

    `slept`: whether it came out of a sleep, so that something is recorded of the workflow.
    """

    workflow: str
    receipt: str
    slept: bool = False


@dataclass(frozen=True, slots=True)
class Completed(Generic[T_co]):
    """The body returned `value`."""

    value: T_co


@dataclass(frozen=True, slots=True)
class Sleeping:
    """The body waits in the sleep `key` until `due` (aware, UTC)."""

    key: str
    due: datetime


@dataclass(frozen=True, slots=True)
class Blocked:
    """The body waits for values (`waiting`: their keys) and for messages (`listening`: the reads' keys).

    Raises a `ValueError` when both are empty: nothing could ever wake such a workflow.
    """

    waiting: tuple[str, ...] = ()
    listening: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.waiting and not self.listening:
            raise ValueError("a blocked pass waits for at least one value or message")

    @property
    def keys(self) -> tuple[str, ...]:
        """Every key that the pass waits at, values first."""
        return self.waiting + self.listening
