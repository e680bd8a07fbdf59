# Generated from packages/redis_async/src/durably_redis_async/stream.py by twin.py. Edit that file.
"""A queue as one Redis stream with a consumer group, and one sorted set of sleepers.

Readers block in Redis, so a new wakeup is picked up at once. An answered entry stays in the stream until `trim`
removes it. See `docs/schedulers.md` for how to choose between this and the set.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

from durably import queue_scripts as queue
from durably.durations import check_duration, check_idle, milliseconds
from durably.fresh import fresh, renew_at_fork
from durably.keys import check_id, check_namespace
from durably.values import LEASE, Delivery

from durably_redis_sync._client import (
    AnyRedis,
    Call,
    ResponseError,
    Script,
    check_client,
    patiently,
    register,
    send,
    socket_timeout,
)
from durably_redis_sync._concurrency import Guard
from durably_redis_sync.alarms import Alarms
from durably_redis_sync.parking import StreamParking
from durably_redis_sync.stream_reads import blocking_read
from durably_redis_sync.streams import Sink, from_sink
from durably_redis_sync.trimming import trim

TRIM_EVERY = timedelta(minutes=1)
"""How often to trim."""

LOOKING = timedelta(seconds=1.25)
"""How often a worker looks for deadlines that others left: with its reads, two commands a second in all."""

_LONGEST_BLOCK = 1.0
_START = "0-0"
_RECLAIMS = 5
"""How many calls one look for abandoned deliveries makes at the most."""


@dataclass
class RedisStreamScheduler(StreamParking):
    """Wakeups in a stream.

    `redis` must be built with `decode_responses=True`. `namespace`: text without braces. `group`: the consumer group
    that all workers of one kind share. `batch`: how many sleepers one call wakes. `consumer`: this worker's name, of
    its own (a forked process gets a new one, unless you chose it). `lease`: how long a delivery may go without a sign
    of life. `scan`: how many entries `cancel` and housekeeping read at once; in a longer stream `cancel` reads none,
    and leaves a mark. Raises `ValueError` or `TypeError` for what does not fit.
    """

    redis: AnyRedis
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
    sifter: Script = field(init=False, repr=False, compare=False)
    taker: Script = field(init=False, repr=False, compare=False)
    sweeper: Script = field(init=False, repr=False, compare=False)
    unmarker: Script = field(init=False, repr=False, compare=False)
    trimmer: Script = field(init=False, repr=False, compare=False)
    reclaimer: Script = field(init=False, repr=False, compare=False)
    stands: Script = field(init=False, repr=False, compare=False)
    counter: Script = field(init=False, repr=False, compare=False)
    guard: Guard = field(default_factory=Guard, init=False, repr=False, compare=False)
    marked: bool = field(default=False, init=False, repr=False, compare=False)
    alarms: Alarms = field(default_factory=Alarms, init=False, repr=False, compare=False)

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
        self.sifter = register(self.redis, queue.STREAM_SIFT)
        self.taker = register(self.redis, queue.STREAM_TAKE)
        self.sweeper = register(self.redis, queue.STREAM_SWEEP)
        self.unmarker = register(self.redis, queue.STREAM_UNMARK)
        self.trimmer = register(self.redis, queue.STREAM_TRIM)
        self.reclaimer = register(self.redis, queue.STREAM_RECLAIM)
        self.stands = register(self.redis, queue.STREAM_HOLDING)
        self.counter = register(self.redis, queue.STREAM_AVAILABLE)

    def prepare(self) -> None:
        """Create the consumer group, from the stream's beginning: what was queued before counts. Repeatable."""
        try:
            patiently(
                self.redis,
                lambda: self.redis.xgroup_create(self.ready_key, self.group, id="0", mkstream=True),
            )
        except ResponseError as error:
            if "BUSYGROUP" not in str(error):
                raise

    def make_ready(self, workflow: str) -> None:
        """Ask for a pass."""
        command = ("XADD", self.ready_key, "*", "workflow", check_id(workflow))
        send(Call(self.redis, command, bool))

    def wake_at(self, delivery: Delivery, when: datetime) -> None:
        """Answer for `delivery` and ask for a pass at `when` (aware); see `Scheduler`."""
        send(self.suspending(delivery, when))

    def wake_due(self, now: datetime | None = None) -> tuple[str, ...]:
        """Make ready every sleeper whose deadline is not after `now` (aware; unset: the server's), `batch` per call;
        which ones."""
        return (self.wake_and_look(now))[0]

    def wake_and_look(self, now: datetime | None = None) -> tuple[tuple[str, ...], timedelta | None]:
        """`wake_due`, and how long it is until the next sleeper is due, by the same clock; `None` without one."""
        moment = "" if now is None else queue.unix_seconds(now)
        woken: list[str] = []
        while True:
            left, marks, *moved = self.move(
                [self.sleeping_key, self.ready_key, self.marks_key], [moment, self.batch]
            )
            self.marked = marks > 0
            woken.extend(moved)
            if len(moved) < self.batch:
                return tuple(woken), None if left < 0 else timedelta(microseconds=left)

    @property
    def looking(self) -> timedelta:
        """How often a worker looks for deadlines that others left."""
        return LOOKING

    def next_ready(self, within: timedelta) -> Delivery | None:
        """The next wakeup, waiting `within` at most, however short the client's `socket_timeout` is."""
        found = self.next_several(within, 1)
        return found[0] if found else None

    def take_now(self, most: int) -> list[Delivery]:
        """What nobody has read yet, `most` at most, without waiting."""
        taken: list[Delivery] = []
        more = True
        while more and len(taken) < most:
            count = min(most - len(taken), queue.SEVERAL)
            args = (self.group, self.consumer, count, queue.TAKE_READS)
            try:
                more, *found = self.taker([self.ready_key, self.marks_key], args)
            except ResponseError as error:
                if "NOGROUP" not in str(error):
                    raise
                self.prepare()
                continue
            rows = zip(found[::3], found[1::3], found[2::3], strict=True)
            taken += [Delivery(str(workflow), str(receipt), bool(slept)) for receipt, workflow, slept in rows]
        return taken

    def next_several(self, within: timedelta, most: int, sifted: bool = True) -> list[Delivery]:
        """The next wakeups, `most` at most: as soon as there is one, waiting `within` at most.

        `sifted=False` is for a caller that asks `holding` of each before it acts: one that was cancelled may be among
        them.
        """
        until = time.monotonic() + check_duration("within", within).total_seconds()
        patience = socket_timeout(self.redis)
        longest = _LONGEST_BLOCK if patience is None else min(_LONGEST_BLOCK, patience / 2)
        left = until - time.monotonic()
        while True:
            block = max(1, milliseconds(timedelta(seconds=max(0.001, min(left, longest)))))
            found = self._read(block, most, sifted)
            if found:
                return found
            left = until - time.monotonic()
            if left <= 0:
                return []

    def _read(self, block: int, most: int, sifts: bool) -> list[Delivery]:
        try:
            reply, marks = blocking_read([self], block, min(most, queue.SEVERAL), sifts)
        except ResponseError as error:
            if "NOGROUP" not in str(error) and "UNBLOCKED" not in str(error):
                raise
            self.prepare()
            return []
        entries = queue.read_entries(reply)
        found = self._kept(entries, marks[0])
        # where all that was read had to go, there may be more
        return self.take_now(most) if entries and not found else found

    def _kept(self, entries: list[tuple[str, dict[str, str]]], marks: int) -> list[Delivery]:
        """The deliveries of what was read, without those that were cancelled before, if there are `marks`."""
        found = []
        for receipt, fields in entries:
            workflow = fields.get("workflow")
            if workflow:
                found.append(Delivery(workflow, receipt, "slept" in fields))
            else:
                self.done(Delivery("?", receipt))
        if marks and found:
            named = [text for one in found for text in (one.receipt, one.workflow)]
            dropped = set(self.sifter([self.ready_key, self.marks_key], [self.group, *named]))
            found = [one for one in found if one.receipt not in dropped]
        return found

    def reclaim(self, idle: timedelta) -> Delivery | None:
        """Take over one delivery that showed no sign of life for `idle`, or `None`.

        One look covers a part of what is pending (some 2,500), the next one goes on from there.
        """
        least = milliseconds(check_idle(idle))
        for _ in range(_RECLAIMS):
            with self.guard:
                cursor = self.scanned[0]
            args = (self.group, self.consumer, least, cursor, queue.RECLAIM_STEPS)
            try:
                reply = self.reclaimer([self.ready_key, self.marks_key], args)
            except ResponseError as error:
                if "NOGROUP" not in str(error):
                    raise
                self.prepare()
                return None
            following, entry = queue.reclaimed_entry(reply)
            with self.guard:
                self.scanned[0] = following
            if entry is not None:
                found = self._kept([entry], 0)
                return found[0] if found else None
            if following == _START:
                return None
        return None

    def extend(self, delivery: Delivery, within: timedelta) -> Delivery:
        """A sign of life: the idle clock starts again. The delivery keeps its name."""
        send(self.extension(delivery, within))
        return delivery

    def available(self, most: int) -> int:
        """How many deliveries could be taken now, abandoned ones included; `most` at most."""
        args = (self.group, milliseconds(self.lease), most)
        return int(self.counter([self.ready_key], args))

    def cancel(self, workflow: str) -> None:
        """Drop every wakeup of `workflow`, in one call however long the queue is."""
        send(self.cancelling(workflow))

    def done(self, delivery: Delivery) -> None:
        """Answer for `delivery`; silent if it is no longer held."""
        send(self.answering(delivery))

    def trim(self) -> int:
        """Remove entries that every group has answered for, and those of cancelled wakeups, in bounded calls; how many.
        Safe at any time, anywhere."""
        return trim(self)


class Trims(Protocol):
    """A queue that can be trimmed."""

    def trim(self) -> int:
        """Remove what nobody needs any more; how many entries."""
        ...


def trimming(scheduler: Trims) -> Sink[object]:
    """A sink that trims once per event, whatever the event: drive it with `ticks(TRIM_EVERY)`."""

    def once(_: object) -> None:
        scheduler.trim()

    return from_sink(once)
