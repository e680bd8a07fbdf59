# Generated from packages/redis_async/src/durably_redis_async/alarms.py by twin.py. Edit that file.
"""When a worker has sleepers to wake: at the deadlines it knows, and not by looking again and again.

A deadline that one of the worker's own passes asked for is known exactly, and is acted on when it comes. One that was
found in the queue is somebody's who acts on it himself: it is acted on a little later, in case he is gone.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from datetime import datetime, timedelta
from typing import Any, Protocol

from durably_redis_sync._concurrency import Event, Guard, wait_for

_KNOWN = 10_000
"""How many deadlines of its own a worker keeps in mind: the soonest. The others are found by looking."""

_ALIKE = 0.001
"""Deadlines as close as this, in seconds, are one."""

_APART = 0.002
"""How far apart two calls that wake sleepers begin at least, in seconds."""

_REST = 1.0
"""How long a worker without a deadline rests, in seconds, before it looks around in itself."""


class Alarm:
    """The deadlines that one worker knows, in monotonic seconds. `rung` is set when there is news."""

    def __init__(self) -> None:
        self.rung = Event()
        self._guard = Guard()
        self._own: list[float] = []
        self._found: dict[object, float] = {}

    def own(self, at: float) -> None:
        """A pass of this process asked to be woken at `at`."""
        with self._guard:
            place = bisect_left(self._own, at)
            if place < len(self._own) and self._own[place] < at + _ALIKE:
                return
            self._own.insert(place, at)
            del self._own[_KNOWN:]
        if place == 0:
            self.rung.set()

    def found(self, at: float | None, queue: object = None) -> None:
        """What `queue` said of its next deadline: `at`, or that there is none."""
        with self._guard:
            before = self._found.pop(queue, None)
            if at is not None:
                self._found[queue] = at
            sooner = at is not None and (before is None or at < before)
        if sooner:
            self.rung.set()

    def next(self, tick: float) -> float | None:
        """When to act next: a deadline of others counts `tick` seconds later."""
        with self._guard:
            moments = [*self._own[:1], *(at + tick for at in self._found.values())]
        return min(moments, default=None)

    def passed(self, now: float) -> bool:
        """Forget what is past: it is acted on. Whether a deadline of one's own was among it."""
        with self._guard:
            past = bisect_left(self._own, now)
            del self._own[:past]
            self._found = {queue: at for queue, at in self._found.items() if at > now}
        return past > 0


class Alarms:
    """The alarms of the workers that use one queue object. True while there are some."""

    def __init__(self) -> None:
        self._guard = Guard()
        self._all: tuple[Alarm, ...] = ()

    def __bool__(self) -> bool:
        return bool(self._all)

    def add(self, alarm: Alarm) -> None:
        """Tell `alarm` of deadlines from now on."""
        with self._guard:
            self._all = (*self._all, alarm)

    def remove(self, alarm: Alarm) -> None:
        """Tell it no more."""
        with self._guard:
            self._all = tuple(one for one in self._all if one is not alarm)

    def own(self, left: int) -> None:
        """A pass of this process asked to be woken in `left` microseconds."""
        at = time.monotonic() + left / 1e6
        for one in self._all:
            one.own(at)

    def found(self, left: int | None) -> None:
        """What the queue said: its next deadline is in `left` microseconds, or there is none."""
        at = None if left is None else time.monotonic() + left / 1e6
        for one in self._all:
            one.found(at, self)


class TellsAlarms(Protocol):
    """Whom a queue tells of deadlines."""

    def add(self, alarm: Alarm) -> None:
        """Tell `alarm` of deadlines from now on."""
        ...

    def remove(self, alarm: Alarm) -> None:
        """Tell it no more."""
        ...


class SaysWhen(Protocol):
    """A queue that tells when its next sleeper is due, so that nobody has to ask at every tick."""

    @property
    def looking(self) -> timedelta | None:
        """How often a worker looks for deadlines that others left; `None` where its readers do that as they wait."""
        ...

    def wake_and_look(self, now: datetime | None = None) -> tuple[tuple[str, ...], timedelta | None]:
        """`wake_due`, and how long it is until the next sleeper is due, by the same clock; `None` without one."""
        ...

    @property
    def alarms(self) -> TellsAlarms:
        """Whom it tells of the deadlines that are asked for through this object."""
        ...


def says_when(scheduler: Any) -> bool:
    """Whether `scheduler` is one."""
    return all(hasattr(scheduler, name) for name in vars(SaysWhen) if not name.startswith("_"))


def wake_on_time(scheduler: SaysWhen, alarm: Alarm, tick: timedelta, ended: Event) -> None:
    """Wake sleepers at their deadlines until `ended` is set, and `alarm.rung` after it."""
    looking = None if scheduler.looking is None else scheduler.looking.total_seconds()
    while not ended.is_set():
        began = time.monotonic()
        own = alarm.passed(began)
        _, left = scheduler.wake_and_look()
        at = None if left is None else time.monotonic() + left.total_seconds()
        alarm.found(at)
        if own and at is not None and at < began + tick.total_seconds():
            alarm.own(
                at
            )  # it may be the one that was acted on, a little early: two clocks are never quite alike
        while True:
            alarm.rung.clear()
            if ended.is_set():
                return
            at = alarm.next(tick.total_seconds())
            if looking is not None:
                at = began + looking if at is None else min(at, began + looking)
            now = time.monotonic()
            pause = _REST if at is None else max(at, began + _APART) - now
            if pause <= 0:
                break
            wait_for(alarm.rung, pause)
