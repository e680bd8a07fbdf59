# Generated from packages/redis_async/src/durably_redis_async/sorted_set.py by twin.py. Edit that file.
"""A queue as one sorted set, scored by when each workflow becomes visible.

Being due and being ready are the same score, so there is nothing to prepare, to move or to take over by hand: an
abandoned workflow becomes visible when its lease ends. Readers wait at a bell, a list of at most one token, that is
rung for what becomes visible. See `docs/schedulers.md`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime, timedelta
from math import inf
from typing import Any
from uuid import uuid4

from durably import queue_scripts as queue
from durably.durations import check_duration, check_idle, check_moment, milliseconds
from durably.fresh import fresh, nonce, renew_at_fork
from durably.keys import (
    answer_key,
    check_namespace,
    receipts_key,
)
from durably.values import LEASE, Delivery, now_utc

from durably_redis_sync._client import (
    AnyRedis,
    Call,
    Script,
    attempt_alone,
    check_client,
    patiently,
    register,
    send,
    socket_timeout,
)
from durably_redis_sync._concurrency import Guard, sleep
from durably_redis_sync.alarms import Alarms
from durably_redis_sync.parking import SetParking

POLL = timedelta(milliseconds=50)
"""How often a waiting reader looks that does not wait at the bell."""

_LONGEST = 1.0
"""How long a reader waits at the bell at a time, in seconds: it may have been rung for one that is gone."""

_JUST_NOW = 0.02
_SHORTEST = 0.001
_SLACK = 0.1
"""How late an idle server may see that a wait is over, in seconds. Shorter waits are spent here, looking."""


@dataclass
class RedisSetScheduler(SetParking):
    """Wakeups in a sorted set.

    `redis` must be built with `decode_responses=True`. `namespace`: text without braces. `lease`: how long a delivery
    may go without a sign of life. `doorbell`: whether a waiting reader is rung for, at once, and looks by itself once a
    second; else, and with a `now` of your own, it looks every `poll`. `now`: what "visible now" means; the server's
    clock, unless a test gives another. Raises `ValueError` or `TypeError` for what does not fit.
    """

    redis: AnyRedis
    namespace: str = "workflow"
    lease: timedelta = LEASE
    poll: timedelta = POLL
    now: Callable[[], datetime] = now_utc
    _: KW_ONLY
    doorbell: bool = True
    take: Script = field(init=False, repr=False, compare=False)
    finish: Script = field(init=False, repr=False, compare=False)
    suspend: Script = field(init=False, repr=False, compare=False)
    keep: Script = field(init=False, repr=False, compare=False)
    ring: Script = field(init=False, repr=False, compare=False)
    drop: Script = field(init=False, repr=False, compare=False)
    stands: Script = field(init=False, repr=False, compare=False)
    counter: Script = field(init=False, repr=False, compare=False)
    waker: Script = field(init=False, repr=False, compare=False)
    alarms: Alarms = field(default_factory=Alarms, init=False, repr=False, compare=False)
    readers: list[str] = field(default_factory=list, init=False, repr=False, compare=False)
    looked: tuple[float, float] = field(default=(-inf, 0.0), init=False, repr=False, compare=False)
    guard: Guard = field(default_factory=Guard, init=False, repr=False, compare=False)
    taker: str = field(default_factory=fresh, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_client(self.redis)
        check_namespace(self.namespace)
        check_duration("a lease", self.lease)
        check_duration("poll", self.poll)
        if not isinstance(self.doorbell, bool):
            raise TypeError(f"doorbell must be True or False, not {self.doorbell!r}")
        renew_at_fork(self, "taker")
        self.take = register(self.redis, queue.SET_TAKE)
        self.finish = register(self.redis, queue.SET_FINISH)
        self.suspend = register(self.redis, queue.SET_SUSPEND)
        self.keep = register(self.redis, queue.SET_KEEP)
        self.ring = register(self.redis, queue.SET_RING)
        self.drop = register(self.redis, queue.SET_CANCEL)
        self.stands = register(self.redis, queue.SET_HOLDING)
        self.counter = register(self.redis, queue.SET_AVAILABLE)
        self.waker = register(self.redis, queue.SET_WAKE)

    def prepare(self) -> None:
        """Nothing to create."""

    def make_ready(self, workflow: str) -> None:
        """Make `workflow` visible now."""
        send(self.ringing(workflow))

    def wake_at(self, delivery: Delivery, when: datetime) -> None:
        """Answer for `delivery` and make its workflow visible at `when` (aware); see `Scheduler`."""
        send(self.suspending(delivery, when))

    def wake_due(self, now: datetime | None = None) -> tuple[str, ...]:
        """Nothing to move: a workflow whose deadline has come is visible."""
        if now is not None:
            check_moment("now", now)
        return ()

    @property
    def looking(self) -> None:
        """A worker need not look for deadlines: its reader does, as it waits."""
        return None

    def wake_and_look(self, now: datetime | None = None) -> tuple[tuple[str, ...], timedelta | None]:
        """`wake_due`: it rings for what has become visible. And how long it is until more will be, `None` for never."""
        moment = self._moment() if now is None else queue.unix_milliseconds(now)
        left = int(self.waker([self.schedule_key, self._bell], [moment]))
        return (), None if left < 0 else timedelta(microseconds=left)

    def next_ready(self, within: timedelta) -> Delivery | None:
        """The next visible workflow, waiting `within` at most, however short the client's `socket_timeout` is."""
        taken = self.next_several(within, 1)
        return taken[0] if taken else None

    def take_now(self, most: int) -> list[Delivery]:
        """The visible workflows, `most` at most, without waiting."""
        return self._take(most, 0)

    def next_several(self, within: timedelta, most: int) -> list[Delivery]:
        """The next visible workflows, `most` at most: as soon as there is one, waiting `within` at most."""
        until = time.monotonic() + check_duration("within", within).total_seconds()
        while True:
            left, coming = until - time.monotonic(), self._coming()
            taken = self._take(most, 0 if coming is None else self._at_bell(left, coming))
            if taken:
                return taken
            left = until - time.monotonic()
            if left <= 0:
                return []
            coming = self._coming()
            if coming is None:
                sleep(min(left, self.poll.total_seconds()))
            elif not self._at_bell(left, coming):
                sleep(min(left, self.poll.total_seconds(), max(coming, _SHORTEST)))

    def _coming(self) -> float | None:
        """In how many seconds one will be visible, where somebody here has looked just now and found all taken."""
        with self.guard:
            looked, coming = self.looked
        now = time.monotonic()
        return coming - now if now - looked < _JUST_NOW else None

    def _at_bell(self, left: float, coming: float) -> float:
        """How long to wait at the bell, in seconds, when `left` are left, and one will be visible in `coming`; 0 to
        wait here."""
        patience = socket_timeout(self.redis)
        longest = min(left, _LONGEST, _LONGEST if patience is None else patience - 2 * _SLACK)
        if not self.alarms:
            longest = min(longest, coming - _SLACK)
        return longest if self._rings and longest >= _SLACK else 0.0

    def _take(self, most: int, wait: float) -> list[Delivery]:
        """What is visible, after a wait at the bell."""
        with self.guard:
            reader = self.readers.pop() if self.readers else f"{self.taker}-{uuid4().hex[:8]}"
        keys = [
            self.schedule_key,
            receipts_key(self.namespace),
            answer_key(self.namespace, reader),
            self._bell,
            self._slept,
        ]
        args = [
            milliseconds(self.lease),
            self._moment(),
            nonce(),
            queue.ANSWERS,
            min(most, queue.SEVERAL),
        ]
        try:
            *taken, left = self.take(keys, args) if not wait else self._wait_and_take(keys, args, wait)
        finally:
            with self.guard:
                self.readers.append(reader)
        if left and self._rings:
            now = time.monotonic()
            with self.guard:
                self.looked = (now, inf if left < 0 else now + left / 1e6)
            self.alarms.found(None if left < 0 else left)
        pairs = zip(taken[::2], taken[1::2], strict=True)
        return [queue.taken_delivery(workflow, receipt) for workflow, receipt in pairs]

    def _wait_and_take(self, keys: list[str], args: list[Any], wait: float) -> Any:
        """Both in one round trip: the server begins with the second when the first is over."""
        sent = False

        def both() -> list[Any]:
            nonlocal sent
            if sent:  # the connection was lost: what was taken is told again, at once
                return [None, self.take(keys, args)]
            sent = True
            bell = Call(self.redis, ("BLPOP", self._bell, f"{wait:.3f}"), bool)
            return attempt_alone([bell, self.take.call(keys, args, list)])

        bell, taken = patiently(self.redis, both)
        if isinstance(bell, Exception) and "UNBLOCKED" not in str(bell):
            raise bell
        return self.take(keys, args) if isinstance(taken, Exception) else taken

    def reclaim(self, idle: timedelta) -> Delivery | None:
        """Nothing to take over: `next_ready` finds an abandoned workflow when its lease has ended."""
        check_idle(idle)
        return None

    def extend(self, delivery: Delivery, within: timedelta) -> Delivery:
        """Hide the delivery for `within` from now, and return it under its new receipt; as it is if it is not held."""
        extended: Delivery = send(self.extension(delivery, within))
        return extended

    def available(self, most: int) -> int:
        """How many deliveries could be taken now, abandoned ones included; `most` at most."""
        return int(self.counter([self.schedule_key], [self._moment(), most]))

    def cancel(self, workflow: str) -> None:
        """Drop `workflow`, whatever its score means now."""
        send(self.cancelling(workflow))

    def done(self, delivery: Delivery) -> None:
        """Answer for `delivery`, unless something has rescheduled its workflow since."""
        send(self.answering(delivery))
