# Generated from packages/redis_async/src/durably_redis_async/memory_queue.py by twin.py. Edit that file.
"""A scheduler in memory, for tests and for trying things out: it owes, and keeps, what the Redis ones do."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from durably.durations import check_duration, check_idle, check_moment
from durably.keys import check_id
from durably.values import LEASE, Delivery, now_utc

from durably_redis_sync._concurrency import Guard, sleep

_LOOK = 0.005
"""How often a waiting reader looks, in seconds."""


@dataclass
class _Out:
    workflow: str
    seen: datetime
    worth: timedelta


@dataclass
class MemoryScheduler:
    """Wakeups in this process. `lease`: how long a delivery may go without a sign of life. `now`: the clock (aware)."""

    lease: timedelta = LEASE
    now: Callable[[], datetime] = now_utc
    _ready: list[str] = field(default_factory=list, init=False, repr=False)
    _sleeping: dict[str, datetime] = field(default_factory=dict, init=False, repr=False)
    _out: dict[str, _Out] = field(default_factory=dict, init=False, repr=False)
    _parked: dict[str, str] = field(default_factory=dict, init=False, repr=False)
    _taken: int = field(default=0, init=False, repr=False)
    _guard: Guard = field(default_factory=Guard, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_duration("a lease", self.lease)

    def prepare(self) -> None:
        """Nothing to create."""

    def make_ready(self, workflow: str) -> None:
        """Ask for a pass."""
        check_id(workflow)
        with self._guard:
            self._ready.append(workflow)

    def wake_at(self, delivery: Delivery, when: datetime) -> None:
        """Answer for `delivery` and ask for a pass at `when` (aware); see `Scheduler`."""
        check_moment("a deadline", when)
        with self._guard:
            if self._out.pop(delivery.receipt, None) is None:
                return
            sooner = self._sleeping.get(delivery.workflow)
            self._sleeping[delivery.workflow] = when if sooner is None else min(sooner, when)

    def wake_due(self, now: datetime | None = None) -> tuple[str, ...]:
        """Make ready every sleeper whose deadline is not after `now` (aware; unset: the clock's); which ones."""
        now = self.now() if now is None else check_moment("now", now)
        with self._guard:
            due = sorted((when, workflow) for workflow, when in self._sleeping.items() if when <= now)
            for _, workflow in due:
                del self._sleeping[workflow]
                self._ready.append(workflow)
        return tuple(workflow for _, workflow in due)

    def _take(self, workflow: str) -> Delivery:
        self._taken += 1
        receipt = str(self._taken)
        self._out[receipt] = _Out(workflow, self.now(), self.lease)
        return Delivery(workflow, receipt)

    def next_ready(self, within: timedelta) -> Delivery | None:
        """The next wakeup, waiting `within` at most."""
        until = time.monotonic() + check_duration("within", within).total_seconds()
        while True:
            with self._guard:
                if self._ready:
                    return self._take(self._ready.pop(0))
            left = until - time.monotonic()
            if left <= 0:
                return None
            sleep(min(left, _LOOK))

    def reclaim(self, idle: timedelta) -> Delivery | None:
        """Take over one delivery that showed no sign of life for `idle`, or `None`."""
        check_idle(idle)
        with self._guard:
            now = self.now()
            for receipt, out in list(self._out.items()):
                if now - out.seen >= idle:
                    del self._out[receipt]
                    return self._take(out.workflow)
        return None

    def extend(self, delivery: Delivery, within: timedelta) -> Delivery:
        """A sign of life; the delivery keeps its name."""
        check_duration("within", within)
        with self._guard:
            out = self._out.get(delivery.receipt)
            if out is not None:
                out.seen = self.now()
        return delivery

    def cancel(self, workflow: str) -> None:
        """Drop every wakeup of `workflow`, asked for or outstanding."""
        check_id(workflow)
        with self._guard:
            self._sleeping.pop(workflow, None)
            self._parked.pop(workflow, None)
            self._ready[:] = [one for one in self._ready if one != workflow]
            for receipt, out in list(self._out.items()):
                if out.workflow == workflow:
                    del self._out[receipt]

    def done(self, delivery: Delivery) -> None:
        """Answer for `delivery`; silent if it is no longer held."""
        with self._guard:
            self._out.pop(delivery.receipt, None)

    def park(self, delivery: Delivery, reason: str) -> None:
        """Answer for `delivery` and park its workflow; silent if it is no longer held."""
        with self._guard:
            if self._out.pop(delivery.receipt, None) is not None:
                said = {"reason": reason, "at": int(self.now().timestamp() * 1000)}
                self._parked[delivery.workflow] = json.dumps(said)

    def parked(self) -> dict[str, str]:
        """The parked workflows: JSON text each, with `reason`, and `at` (ms)."""
        with self._guard:
            return dict(self._parked)

    def unpark(self, workflow: str) -> bool:
        """Take `workflow` off the list and ask for a pass over it; whether it was parked."""
        check_id(workflow)
        with self._guard:
            was = self._parked.pop(workflow, None) is not None
            if was:
                self._ready.append(workflow)
        return was
