# Generated from packages/redis_async/src/durably_redis_async/interfaces.py by twin.py. Edit that file.
"""What a store and a queue owe the runner. Any pair that meets these lists will do."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Protocol, TypeVar

from durably.durability import Durability
from durably.durations import check_duration
from durably.keys import check_id
from durably.signals import Contended
from durably.values import BUDGET, INPUT, LEASE, Delivery, Entry, Pass, Recorded, Written

Effect_contra = TypeVar("Effect_contra", contravariant=True)
Effect = TypeVar("Effect")


class Checkpointer(Protocol[Effect_contra]):
    """A workflow's records and the claim on it.

    Every value crosses the codec both ways before it is handed back. A refused write moves nothing: not the value,
    not the position, not the time, not the holder's liveness. An error that is not the fence reaches the caller as
    it is.
    """

    def load(self, workflow: str) -> dict[str, object]:
        """Every record, in the order in which the keys were first recorded; empty for an unknown workflow."""
        ...

    def history(self, workflow: str) -> dict[str, Written]:
        """The same, with the time of each write."""
        ...

    def claim(
        self, workflow: str, budget: timedelta = BUDGET, alive: timedelta = LEASE, *, slept: bool = False
    ) -> Pass | None:
        """The right to run one pass, or `None` while another holds it.

        It lapses `alive` after the last sign of life, or when `budget` is over, whichever is sooner. Tokens rise
        strictly per workflow, also after the claim's key has expired. Raises `CheckpointGone` if records of a workflow
        that has not ended are gone: `slept` says that its wakeup came out of a sleep, so that something was recorded.
        """
        ...

    def extend(self, holder: Pass, budget: timedelta, alive: timedelta = LEASE) -> bool:
        """Let the budget end `budget` from now, if that is later than it would. `False` if the claim is lost.

        A claim that lapsed but was not taken is revived; one that was released is not.
        """
        ...

    def renew(self, holder: Pass, alive: timedelta = LEASE) -> bool:
        """One sign of life. `False` if the claim is lost, released, or its budget spent."""
        ...

    def release(self, holder: Pass, outcome: object = None) -> None:
        """Give the claim back; silent if it is lost.

        `outcome` is what the pass came to, or the exception that it failed with, where that is known: what waits must
        not expire before its wait is over.
        """
        ...

    def record(
        self, holder: Pass, key: str, value: object, *, durability: Durability | None = None
    ) -> Recorded:
        """Record a step. What was recorded before stands. Raises `Fenced` if the claim is lost.

        `durability`: what the record must have reached before this returns, else `NotDurable`; unset, the store's own
        setting. A store with one level only may ignore it.
        """
        ...

    def transact(
        self, holder: Pass, key: str, effect: Effect_contra, *, durability: Durability | None = None
    ) -> object:
        """Run `effect` where the records are, at most once over all passes, and record what it returns.

        Raises `Fenced`, `EffectTorn` (it failed after a write of its own), or the effect's own error.
        """
        ...

    def supply(self, workflow: str, key: str, value: object) -> object:
        """Record a value that a workflow waits for, without a claim; returns what is recorded now."""
        ...

    def append(self, workflow: str, value: object, *, once: str | None = None) -> Entry[object]:
        """File a message, without a claim. Keys sort in the order of appending, and none is used twice.

        `once` names the message: one that was filed under the name before is told its key, and nothing is filed.
        """
        ...

    def discard(self, workflow: str) -> int:
        """Remove every record and fence any pass in flight; returns how many records there were."""
        ...


class Scheduler(Protocol):
    """A queue of wakeups.

    A workflow made ready is yielded sooner or later, though its worker die, though the wakeup land in the middle of
    a pass on that workflow. What is cancelled stays cancelled, in every interleaving, until it is made ready again.
    """

    @property
    def lease(self) -> timedelta:
        """How long a delivery may go without a sign of life before others take it over."""
        ...

    def prepare(self) -> None:
        """Create what readers need. Harmless to repeat."""
        ...

    def make_ready(self, workflow: str) -> None:
        """Ask for a pass."""
        ...

    def wake_at(self, delivery: Delivery, when: datetime) -> None:
        """Answer for `delivery` and ask for a pass at `when`, in one step.

        Never over a wakeup that has come since, nor over a sooner deadline, nor for a workflow cancelled since.
        """
        ...

    def wake_due(self, now: datetime | None = None) -> tuple[str, ...]:
        """Make ready, each in one step, every sleeper whose deadline has come by `now`; which ones.

        Unset, it is the queue's own clock: for Redis the server's.
        """
        ...

    def next_ready(self, within: timedelta) -> Delivery | None:
        """The next wakeup, waiting `within` at most."""
        ...

    def reclaim(self, idle: timedelta) -> Delivery | None:
        """One delivery that showed no sign of life for `idle`; zero means any that is outstanding."""
        ...

    def extend(self, delivery: Delivery, within: timedelta) -> Delivery:
        """A sign of life, worth `within`. Returns the delivery to use from now on; never takes one back."""
        ...

    def cancel(self, workflow: str) -> None:
        """Drop every wakeup of the workflow, asked for or outstanding."""
        ...

    def done(self, delivery: Delivery) -> None:
        """Answer for `delivery`; silent if it is no longer held."""
        ...

    def park(self, delivery: Delivery, reason: str) -> None:
        """Answer for `delivery` and put its workflow on the list of those that are parked, in one step."""
        ...

    def parked(self) -> dict[str, str]:
        """The parked workflows: JSON text each, with `reason`, and `at` (ms since 1970, by the queue's clock)."""
        ...

    def unpark(self, workflow: str) -> bool:
        """Take `workflow` off that list and ask for a pass over it; whether it was parked."""
        ...


class Durable(Protocol[Effect_contra]):
    """A store and a queue, and the acts that concern both."""

    @property
    def checkpointer(self) -> Checkpointer[Effect_contra]:
        """The store."""
        ...

    @property
    def scheduler(self) -> Scheduler:
        """The queue."""
        ...

    def start(self, workflow: str, value: object = None, *, key: str = INPUT) -> object:
        """Start a workflow: record `value` as its input under `key`, and ask for a pass; returns what is recorded now.

        The first start's input stands, so a repeat is harmless. The body reads it with `run.input`.
        """
        ...

    def arrive(self, workflow: str, key: str, value: object) -> object:
        """Supply a value and ask for a pass; returns what is recorded now."""
        ...

    def deliver(self, workflow: str, value: object, *, once: str | None = None) -> Entry[object]:
        """Append a message and ask for a pass. `once`: as for `append`."""
        ...

    def delete(self, workflow: str) -> int:
        """Cancel the workflow and discard its records; returns how many there were."""
        ...


def claimed(
    checkpointer: Checkpointer[Effect], workflow: str, budget: timedelta = BUDGET, alive: timedelta = LEASE
) -> Pass:
    """Claim `workflow`, or raise `Contended`; `CheckpointGone` as `claim` does. For a caller that expects to win."""
    check_id(workflow)
    check_duration("a budget", budget)
    check_duration("alive", alive)
    holder = checkpointer.claim(workflow, budget, alive)
    if holder is None:
        raise Contended(workflow)
    return holder
