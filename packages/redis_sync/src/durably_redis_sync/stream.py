# Generated from packages/redis_async/src/durably_redis_async/stream.py by twin.py. Edit that file.
"""A queue as one Redis stream with a consumer group, and one sorted set of sleepers.

Readers block in Redis, so a new wakeup is picked up at once. An answered entry stays in the stream until `trim`
removes it. See `docs/schedulers.md` for how to choose between this and the set.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

from durably import queue_scripts as queue
from durably.durations import check_duration, check_idle, milliseconds
from durably.fresh import fresh, renew_at_fork
from durably.keys import cancelled_key, check_id, check_namespace, ready_key, sleeping_key
from durably.values import LEASE, Delivery

from durably_redis_sync._client import (
    Call,
    Redis,
    ResponseError,
    Script,
    check_client,
    patiently,
    register,
    send,
    socket_timeout,
)
from durably_redis_sync._concurrency import Guard
from durably_redis_sync.streams import Sink, from_sink

TRIM_EVERY = timedelta(minutes=1)
"""How often to trim."""

_LONGEST_BLOCK = 1.0


@dataclass
class RedisStreamScheduler:
    """Wakeups in a stream.

    `redis` must be built with `decode_responses=True`. `namespace`: text without braces. `group`: the consumer group
    that all workers of one kind share. `batch`: how many sleepers one call wakes. `consumer`: this worker's name, of
    its own (a forked process gets a new one, unless you chose it). `lease`: how long a delivery may go without a sign of life. `scan`: how many entries `cancel` reads at
    once. Raises `ValueError` or `TypeError` for what does not fit.
    """

    redis: Redis
    namespace: str = "workflow"
    group: str = "workers"
    batch: int = 100
    consumer: str = field(default_factory=fresh)
    lease: timedelta = LEASE
    scan: int = 500
    scanned: list[str] = field(default_factory=lambda: ["0-0"])
    ring: Script = field(init=False, repr=False, compare=False)
    move: Script = field(init=False, repr=False, compare=False)
    suspend: Script = field(init=False, repr=False, compare=False)
    hold: Script = field(init=False, repr=False, compare=False)
    answer: Script = field(init=False, repr=False, compare=False)
    mark_cancelled: Script = field(init=False, repr=False, compare=False)
    unmark_cancelled: Script = field(init=False, repr=False, compare=False)
    trimmer: Script = field(init=False, repr=False, compare=False)
    reclaimer: Script = field(init=False, repr=False, compare=False)
    stands: Script = field(init=False, repr=False, compare=False)
    counter: Script = field(init=False, repr=False, compare=False)
    guard: Guard = field(default_factory=Guard, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_client(self.redis)
        check_namespace(self.namespace)
        check_duration("a lease", self.lease)
        for name, text in (("group", self.group), ("consumer", self.consumer)):
            if not isinstance(text, str) or not text:
                raise ValueError(f"{name} must be text, and not empty: {text!r}")
        for name, number in (("batch", self.batch), ("scan", self.scan)):
            if isinstance(number, bool) or not isinstance(number, int) or number < 1:
                raise ValueError(f"{name} must be 1 or more, not {number!r}")
        renew_at_fork(self, "consumer")
        self.ring = register(self.redis, queue.STREAM_RING)
        self.move = register(self.redis, queue.STREAM_MOVE)
        self.suspend = register(self.redis, queue.STREAM_SUSPEND)
        self.hold = register(self.redis, queue.STREAM_HOLD)
        self.answer = register(self.redis, queue.STREAM_ANSWER)
        self.mark_cancelled = register(self.redis, queue.STREAM_CANCEL)
        self.unmark_cancelled = register(self.redis, queue.STREAM_CANCELLED)
        self.trimmer = register(self.redis, queue.STREAM_TRIM)
        self.reclaimer = register(self.redis, queue.STREAM_RECLAIM)
        self.stands = register(self.redis, queue.STREAM_HOLDING)
        self.counter = register(self.redis, queue.STREAM_AVAILABLE)

    @property
    def ready_key(self) -> str:
        """The stream's key."""
        return ready_key(self.namespace)

    @property
    def sleeping_key(self) -> str:
        """The sleepers' key."""
        return sleeping_key(self.namespace)

    @property
    def _cancelled_key(self) -> str:
        return cancelled_key(self.namespace)

    def prepare(self) -> None:
        """Create the consumer group, from the stream's beginning: what was queued before counts. Repeatable."""
        try:
            patiently(
                lambda: self.redis.xgroup_create(self.ready_key, self.group, id="0", mkstream=True),
                self.redis,
            )
        except ResponseError as error:
            if "BUSYGROUP" not in str(error):
                raise

    def make_ready(self, workflow: str) -> None:
        """Ask for a pass."""
        check_id(workflow)
        patiently(lambda: self.redis.xadd(self.ready_key, {"workflow": workflow}), self.redis)

    def ringing(self, workflow: str) -> Call:
        """`make_ready` as a call, to be sent with others or in one script with them."""
        return self.ring.call([self.ready_key], [check_id(workflow)], bool)

    def wake_at(self, delivery: Delivery, when: datetime) -> None:
        """Answer for `delivery` and ask for a pass at `when` (aware); see `Scheduler`."""
        send(self.suspending(delivery, when))

    def suspending(self, delivery: Delivery, when: datetime) -> Call:
        """`wake_at` as a call, to be sent with others."""
        keys = [self.ready_key, self.sleeping_key, self._cancelled_key]
        args = [self.group, self.consumer, delivery.receipt, delivery.workflow, queue.unix_seconds(when)]
        return self.suspend.call(keys, args, bool)

    def wake_due(self, now: datetime | None = None) -> tuple[str, ...]:
        """Make ready every sleeper whose deadline is not after `now` (aware; unset: the server's), `batch` per call;
        which ones."""
        moment = "" if now is None else queue.unix_seconds(now)
        woken: list[str] = []
        while True:
            moved = self.move([self.sleeping_key, self.ready_key], [moment, self.batch])
            woken.extend(moved)
            if len(moved) < self.batch:
                return tuple(woken)

    def next_ready(self, within: timedelta) -> Delivery | None:
        """The next wakeup, waiting `within` at most, however short the client's `socket_timeout` is."""
        found = self.next_several(within, 1)
        return found[0] if found else None

    def next_several(self, within: timedelta, most: int) -> list[Delivery]:
        """The next wakeups, `most` at most: as soon as there is one, waiting `within` at most."""
        until = time.monotonic() + check_duration("within", within).total_seconds()
        patience = socket_timeout(self.redis)
        longest = _LONGEST_BLOCK if patience is None else min(_LONGEST_BLOCK, patience / 2)
        left = until - time.monotonic()
        while True:
            block = max(1, milliseconds(timedelta(seconds=max(0.001, min(left, longest)))))
            found = self._read(block, most)
            if found:
                return found
            left = until - time.monotonic()
            if left <= 0:
                return []

    def _read(self, block: int, most: int) -> list[Delivery]:
        def read() -> Any:
            return self.redis.xreadgroup(
                self.group, self.consumer, {self.ready_key: ">"}, count=min(most, queue.SEVERAL), block=block
            )

        try:
            reply = patiently(read, self.redis)
        except ResponseError as error:
            if "NOGROUP" not in str(error) and "UNBLOCKED" not in str(error):
                raise
            self.prepare()
            return []
        found = [self._delivery(entry) for entry in queue.read_entries(reply)]
        return [one for one in found if one is not None]

    def _delivery(self, entry: tuple[str, dict[str, str]] | None) -> Delivery | None:
        if entry is None:
            return None
        receipt, fields = entry
        workflow = fields.get("workflow")
        if not workflow:
            self.done(Delivery("?", receipt))
            return None
        return Delivery(workflow, receipt)

    def reclaim(self, idle: timedelta) -> Delivery | None:
        """Take over one delivery that showed no sign of life for `idle`, or `None`.

        One call looks at a part of what is pending, the next one goes on from there.
        """
        least = milliseconds(check_idle(idle))
        with self.guard:
            cursor = self.scanned[0]
        args = (self.group, self.consumer, least, cursor, queue.RECLAIM_STEPS)
        try:
            reply = self.reclaimer([self.ready_key], args)
        except ResponseError as error:
            if "NOGROUP" not in str(error):
                raise
            self.prepare()
            return None
        following, entry = queue.reclaimed_entry(reply)
        with self.guard:
            self.scanned[0] = following
        return self._delivery(entry)

    def extend(self, delivery: Delivery, within: timedelta) -> Delivery:
        """A sign of life: the idle clock starts again. The delivery keeps its name."""
        send(self.extension(delivery, within))
        return delivery

    def extension(self, delivery: Delivery, within: timedelta) -> Call:
        """`extend` as a call, to be sent with others."""
        check_duration("within", within)
        return self.hold.call(
            [self.ready_key], [self.group, self.consumer, delivery.receipt], lambda _: delivery
        )

    def holding(self, delivery: Delivery) -> Call:
        """Whether `delivery` still stands: not taken over, not cancelled. A call, to be sent with others."""
        args = [self.group, self.consumer, delivery.receipt, delivery.workflow]
        return self.stands.call([self.ready_key, self._cancelled_key], args, bool)

    def available(self, most: int) -> int:
        """How many deliveries could be taken now, abandoned ones included; `most` at most."""
        args = (self.group, milliseconds(self.lease), most)
        return int(self.counter([self.ready_key], args))

    def cancel(self, workflow: str) -> None:
        """Drop every wakeup of `workflow`: the sleeper first, then its entries, `scan` read per call."""
        mark = self.cancelling(workflow)
        self.sweep(workflow, mark, send(mark))

    def cancelling(self, workflow: str) -> Call:
        """The beginning of a cancellation as a call: no sleeper is left, and none of its deliveries stands. Its answer
        is the last entry to `sweep`."""
        keys = [self.ready_key, self.sleeping_key, self._cancelled_key]
        return self.mark_cancelled.call(keys, [check_id(workflow), queue.MARKS, uuid4().hex], queue.as_text)

    def sweep(self, workflow: str, mark: Call, last: str | None) -> None:
        """The rest of a cancellation: drop the workflow's entries up to `last`, and take the mark off."""
        if last is None:
            return
        nonce = str(mark.command[-1])
        start = "-"
        while True:

            def page(since: str = start) -> Any:
                return self.redis.xrange(self.ready_key, min=since, max=last, count=self.scan)

            entries = patiently(page, self.redis)
            ids = [receipt for receipt, fields in entries if fields and fields.get("workflow") == workflow]
            if ids:
                patiently(lambda doomed=ids: self.redis.xdel(self.ready_key, *doomed), self.redis)  # type: ignore[misc]
            if len(entries) < self.scan:
                break
            start = f"({entries[-1][0]}"
        self.unmark_cancelled([self._cancelled_key], [workflow, f"{last}-{nonce}"])

    def done(self, delivery: Delivery) -> None:
        """Answer for `delivery`; silent if it is no longer held."""
        send(self.answering(delivery))

    def answering(self, delivery: Delivery) -> Call:
        """`done` as a call, to be sent with others."""
        return self.answer.call([self.ready_key], [self.group, self.consumer, delivery.receipt], bool)

    def trim(self) -> int:
        """Remove entries that every group has answered for, in bounded calls; how many. Safe at any time, anywhere."""
        removed = 0
        while True:
            chunk = int(self.trimmer([self.ready_key], [queue.TRIM_CHUNK]))
            removed += chunk
            if chunk < queue.TRIM_CHUNK:
                return removed


def trimming(scheduler: RedisStreamScheduler) -> Sink[object]:
    """A sink that trims once per event, whatever the event: drive it with `ticks(TRIM_EVERY)`."""

    def trim(_: object) -> None:
        scheduler.trim()

    return from_sink(trim)
