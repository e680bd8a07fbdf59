# Generated from packages/redis_async/src/durably_redis_async/sorted_set.py by twin.py. Edit that file.
"""A queue as one sorted set, scored by when each workflow becomes visible.

Being due and being ready are the same score, so there is nothing to prepare, to move or to take over by hand: an
abandoned workflow becomes visible when its lease ends. The price is polling.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import uuid4

from durably import queue_scripts as queue
from durably.durations import check_duration, check_idle, check_moment, milliseconds
from durably.fresh import fresh, renew_at_fork
from durably.keys import answer_key, answers_key, check_id, check_namespace, receipts_key, schedule_key
from durably.values import LEASE, Delivery, now_utc

from durably_redis_sync._client import AnyRedis, Call, Script, check_client, register, send
from durably_redis_sync._concurrency import Guard, sleep

POLL = timedelta(milliseconds=50)
"""How often a waiting reader looks."""


@dataclass
class RedisSetScheduler:
    """Wakeups in a sorted set.

    `redis` must be built with `decode_responses=True`. `namespace`: text without braces. `lease`: how long a delivery
    may go without a sign of life. `poll`: how often a waiting reader looks. `now`: what "visible now" means; the
    server's clock, unless a test gives another. Raises `ValueError` or `TypeError` for what does not fit.
    """

    redis: AnyRedis
    namespace: str = "workflow"
    lease: timedelta = LEASE
    poll: timedelta = POLL
    now: Callable[[], datetime] = now_utc
    take: Script = field(init=False, repr=False, compare=False)
    finish: Script = field(init=False, repr=False, compare=False)
    suspend: Script = field(init=False, repr=False, compare=False)
    keep: Script = field(init=False, repr=False, compare=False)
    ring: Script = field(init=False, repr=False, compare=False)
    drop: Script = field(init=False, repr=False, compare=False)
    stands: Script = field(init=False, repr=False, compare=False)
    counter: Script = field(init=False, repr=False, compare=False)
    readers: list[str] = field(default_factory=list, init=False, repr=False, compare=False)
    guard: Guard = field(default_factory=Guard, init=False, repr=False, compare=False)
    taker: str = field(default_factory=fresh, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_client(self.redis)
        check_namespace(self.namespace)
        check_duration("a lease", self.lease)
        check_duration("poll", self.poll)
        renew_at_fork(self, "taker")
        self.take = register(self.redis, queue.SET_TAKE)
        self.finish = register(self.redis, queue.SET_FINISH)
        self.suspend = register(self.redis, queue.SET_SUSPEND)
        self.keep = register(self.redis, queue.SET_KEEP)
        self.ring = register(self.redis, queue.SET_RING)
        self.drop = register(self.redis, queue.SET_CANCEL)
        self.stands = register(self.redis, queue.SET_HOLDING)
        self.counter = register(self.redis, queue.SET_AVAILABLE)

    @property
    def schedule_key(self) -> str:
        """The sorted set's key."""
        return schedule_key(self.namespace)

    @property
    def _answers(self) -> str:
        return answers_key(self.namespace)

    def _moment(self) -> str | int:
        return "" if self.now is now_utc else queue.unix_milliseconds(self.now())

    def prepare(self) -> None:
        """Nothing to create."""

    def make_ready(self, workflow: str) -> None:
        """Make `workflow` visible now."""
        send(self.ringing(workflow))

    def ringing(self, workflow: str) -> Call:
        """`make_ready` as a call, to be sent with others or in one script with them."""
        return self.ring.call([self.schedule_key], [check_id(workflow), self._moment()], bool)

    def wake_at(self, delivery: Delivery, when: datetime) -> None:
        """Answer for `delivery` and make its workflow visible at `when` (aware); see `Scheduler`."""
        send(self.suspending(delivery, when))

    def suspending(self, delivery: Delivery, when: datetime) -> Call:
        """`wake_at` as a call, to be sent with others."""
        args = (delivery.workflow, delivery.receipt, queue.unix_milliseconds(when))
        return self.suspend.call([self.schedule_key, self._answers], args, bool)

    def wake_due(self, now: datetime | None = None) -> tuple[str, ...]:
        """Nothing to move: a workflow whose deadline has come is visible."""
        if now is not None:
            check_moment("now", now)
        return ()

    def next_ready(self, within: timedelta) -> Delivery | None:
        """The next visible workflow, looking every `poll` for `within` at most."""
        taken = self.next_several(within, 1)
        return taken[0] if taken else None

    def next_several(self, within: timedelta, most: int) -> list[Delivery]:
        """The next visible workflows, `most` at most: as soon as there is one, looking for `within` at most."""
        until = time.monotonic() + check_duration("within", within).total_seconds()
        with self.guard:
            reader = self.readers.pop() if self.readers else f"{self.taker}-{uuid4().hex[:8]}"
        keys = [self.schedule_key, receipts_key(self.namespace), answer_key(self.namespace, reader)]
        try:
            while True:
                args = [
                    milliseconds(self.lease),
                    self._moment(),
                    uuid4().hex,
                    queue.ANSWERS,
                    min(most, queue.SEVERAL),
                ]
                taken = self.take(keys, args)
                if taken:
                    pairs = zip(taken[::2], taken[1::2], strict=True)
                    return [Delivery(str(workflow), str(receipt)) for workflow, receipt in pairs]
                left = until - time.monotonic()
                if left <= 0:
                    return []
                sleep(min(left, self.poll.total_seconds()))
        finally:
            with self.guard:
                self.readers.append(reader)

    def reclaim(self, idle: timedelta) -> Delivery | None:
        """Nothing to take over: `next_ready` finds an abandoned workflow when its lease has ended."""
        check_idle(idle)
        return None

    def extend(self, delivery: Delivery, within: timedelta) -> Delivery:
        """Hide the delivery for `within` from now, and return it under its new receipt; as it is if it is not held."""
        extended: Delivery = send(self.extension(delivery, within))
        return extended

    def extension(self, delivery: Delivery, within: timedelta) -> Call:
        """`extend` as a call, to be sent with others."""
        hidden = milliseconds(check_duration("within", within))
        request = (delivery.workflow, delivery.receipt, hidden, self._moment(), uuid4().hex, queue.ANSWERS)

        def answer(receipt: object) -> Delivery:
            return delivery if receipt is None else Delivery(delivery.workflow, str(receipt))

        keys = [self.schedule_key, receipts_key(self.namespace), self._answers]
        return self.keep.call(keys, request, answer)

    def telling(self) -> Call:
        """The queue's clock, as a call: the time of the server that it is on."""
        return Call(self.redis, ("TIME",), queue.server_time, at=self.schedule_key)

    def holding(self, delivery: Delivery) -> Call:
        """Whether `delivery` still stands: not cancelled, not answered for. A call, to be sent with others."""
        return self.stands.call([self.schedule_key], [delivery.workflow], bool)

    def available(self, most: int) -> int:
        """How many deliveries could be taken now, abandoned ones included; `most` at most."""
        return int(self.counter([self.schedule_key], [self._moment(), most]))

    def cancel(self, workflow: str) -> None:
        """Drop `workflow`, whatever its score means now."""
        send(self.cancelling(workflow))

    def cancelling(self, workflow: str) -> Call:
        """`cancel` as a call, to be sent with others or in one script with them."""
        return self.drop.call([self.schedule_key, self._answers], [check_id(workflow)], lambda _: None)

    def sweep(self, workflow: str, mark: Call, last: str | None) -> None:
        """Nothing is left to drop."""

    def done(self, delivery: Delivery) -> None:
        """Answer for `delivery`, unless something has rescheduled its workflow since."""
        send(self.answering(delivery))

    def answering(self, delivery: Delivery) -> Call:
        """`done` as a call, to be sent with others."""
        keys = [self.schedule_key, self._answers]
        return self.finish.call(keys, [delivery.workflow, delivery.receipt], bool)
