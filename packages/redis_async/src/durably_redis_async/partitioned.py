"""One logical queue over several queues of Redis: what one node can take is no limit any more.

A submitter chooses the queue by a hash of the workflow's id; a worker reads all of them in turn. A delivery stays with
the queue that it came from: its receipt says which.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from durably.durations import check_duration, check_idle
from durably.fresh import fresh
from durably.keys import check_id
from durably.values import LEASE, Delivery

from durably_redis_async._client import AnyRedis, is_cluster, send, send_together
from durably_redis_async._concurrency import Guard, Waiting
from durably_redis_async.alarms import Alarm
from durably_redis_async.partitioned_calls import Partition, PartitionedCalls
from durably_redis_async.sorted_set import RedisSetScheduler
from durably_redis_async.stream import RedisStreamScheduler
from durably_redis_async.stream_reads import read_streams


class _AllAlarms:
    """The alarms of all partitions: a worker is told of the deadlines in each."""

    def __init__(self, partitions: Sequence[Partition]) -> None:
        self._partitions = partitions

    def add(self, alarm: Alarm) -> None:
        for one in self._partitions:
            one.alarms.add(alarm)

    def remove(self, alarm: Alarm) -> None:
        for one in self._partitions:
            one.alarms.remove(alarm)


@dataclass
class PartitionedScheduler(PartitionedCalls):
    """Wakeups in several queues, on as many nodes of a cluster as they happen to be on.

    `partitions`: the queues, streams or sets, each of a namespace of its own, with one lease. All processes name them in
    the same order. `spread`: how many of them, from the first on, new wakeups go to (unset: all); readers read all of
    them in any case. So a queue grows while it runs: let every process read the new partitions first, then raise
    `spread`; to shrink, lower `spread` first, and leave a partition out when it is empty. Raises `ValueError` or
    `TypeError` for what does not fit.
    """

    partitions: Sequence[Partition]
    spread: int | None = field(default=None, kw_only=True)
    alarms: _AllAlarms = field(init=False, repr=False, compare=False)
    _turn: int = field(default=0, init=False, repr=False, compare=False)
    _guard: Guard = field(default_factory=Guard, init=False, repr=False, compare=False)
    _waiting: Waiting[Delivery] = field(default_factory=Waiting, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.partitions = tuple(self.partitions)
        self.alarms = _AllAlarms(self.partitions)
        if not self.partitions:
            raise ValueError("a partitioned queue has one partition or more")
        for one in self.partitions:
            if not isinstance(one, (RedisStreamScheduler, RedisSetScheduler)):
                raise TypeError(f"a partition is a Redis scheduler, not {type(one).__name__}")
        if len({one.lease for one in self.partitions}) > 1:
            raise ValueError("the partitions of a queue have one lease")
        names = [(id(one.redis), type(one), one.namespace) for one in self.partitions]
        if len(set(names)) < len(names):
            raise ValueError("each partition of a queue has a namespace of its own")
        if self.spread is not None and (
            isinstance(self.spread, bool)
            or not isinstance(self.spread, int)
            or not 1 <= self.spread <= len(self.partitions)
        ):
            raise ValueError(f"spread must be from 1 to {len(self.partitions)}, not {self.spread!r}")

    @classmethod
    def of_streams(
        cls,
        redis: AnyRedis,
        namespace: str = "workflow",
        partitions: int = 4,
        *,
        spread: int | None = None,
        lease: timedelta = LEASE,
        **options: Any,
    ) -> PartitionedScheduler:
        """`partitions` streams of the namespaces `<namespace>.0`, `<namespace>.1` and so on; `options` as for one."""
        named = {"consumer": fresh(), **options}
        streams = [
            RedisStreamScheduler(redis, f"{namespace}.{n}", lease=lease, **named) for n in range(partitions)
        ]
        return cls(streams, spread=spread)

    @classmethod
    def of_sets(
        cls,
        redis: AnyRedis,
        namespace: str = "workflow",
        partitions: int = 4,
        *,
        spread: int | None = None,
        lease: timedelta = LEASE,
        **options: Any,
    ) -> PartitionedScheduler:
        """`partitions` sets of the namespaces `<namespace>.0`, `<namespace>.1` and so on; `options` as for one."""
        sets = [
            RedisSetScheduler(redis, f"{namespace}.{n}", lease=lease, **options) for n in range(partitions)
        ]
        return cls(sets, spread=spread)

    @property
    def lease(self) -> timedelta:
        """How long a delivery may go without a sign of life before others take it over."""
        return self.partitions[0].lease

    async def prepare(self) -> None:
        """Create what readers need, in every partition."""
        for one in self.partitions:
            await one.prepare()

    async def make_ready(self, workflow: str) -> None:
        """Ask for a pass."""
        await self.home(workflow).make_ready(workflow)

    async def next_ready(self, within: timedelta) -> Delivery | None:
        """The next wakeup of any partition, waiting `within` at most."""
        found = await self.next_several(within, 1)
        return found[0] if found else None

    async def take_now(self, most: int) -> list[Delivery]:
        """What can be taken at once, a fair share of each partition first, then what is left of any."""
        taken: list[Delivery] = []
        more = self._in_turn()
        while more and len(taken) < most:
            share = -(-(most - len(taken)) // len(more))
            rich = []
            for n in more:
                room = min(share, most - len(taken))
                if room < 1:
                    break
                found = await self.partitions[n].take_now(room)
                taken += [self._outer(n, one) for one in found]
                if len(found) == room:
                    rich.append(n)
            more = rich
        return taken

    async def next_several(self, within: timedelta, most: int, sifted: bool = True) -> list[Delivery]:
        """The next wakeups, `most` at most as a rule: as soon as there is one, waiting `within` at most.

        A few more may come, fewer than there are partitions, when several partitions are rung at once. Cancelled ones
        are never among them, whatever `sifted` says.
        """
        until = time.monotonic() + check_duration("within", within).total_seconds()
        while True:
            taken = await self._waiting.first({}, 0)
            taken += await self.take_now(most - len(taken))
            left = until - time.monotonic()
            if taken or left <= 0:
                return taken
            taken = await self._wait(timedelta(seconds=left))
            if taken:
                return taken

    async def rest(self) -> list[Delivery]:
        """What reads that are still under way bring: for a reader that leaves, before its client is closed."""
        return await self._waiting.rest()

    async def _wait(self, within: timedelta) -> list[Delivery]:
        piece = min(within, _PIECE)
        if self._is_one_read():
            streams: Any = self.partitions
            found = await read_streams(streams, piece, 1)
            return [self._outer(n, one) for n, deliveries in enumerate(found) for one in deliveries]

        def waiter(n: int) -> Any:
            async def wait() -> list[Delivery]:
                return [self._outer(n, one) for one in await self.partitions[n].next_several(piece, 1)]

            return wait

        waits: dict[object, Any] = {n: waiter(n) for n in range(len(self.partitions))}
        return await self._waiting.first(waits, piece.total_seconds())

    def _is_one_read(self) -> bool:
        """Whether one blocking read can wait for all: streams on one server, read under one name."""
        first = self.partitions[0]
        return isinstance(first, RedisStreamScheduler) and all(
            isinstance(one, RedisStreamScheduler)
            and one.redis is first.redis
            and not is_cluster(one.redis)
            and (one.group, one.consumer) == (first.group, first.consumer)
            for one in self.partitions
        )

    def _in_turn(self) -> list[int]:
        """All partitions, each time beginning with the next one."""
        with self._guard:
            first = self._turn
            self._turn = (first + 1) % len(self.partitions)
        return [(first + n) % len(self.partitions) for n in range(len(self.partitions))]

    async def reclaim(self, idle: timedelta) -> Delivery | None:
        """Take over one delivery of any partition that showed no sign of life for `idle`, or `None`."""
        check_idle(idle)
        for n in self._in_turn():
            found = await self.partitions[n].reclaim(idle)
            if found is not None:
                return self._outer(n, found)
        return None

    async def wake_due(self, now: datetime | None = None) -> tuple[str, ...]:
        """Make ready every sleeper of every partition whose deadline is not after `now`; which ones."""
        woken: list[str] = []
        for one in self.partitions:
            woken += await one.wake_due(now)
        return tuple(woken)

    @property
    def looking(self) -> timedelta | None:
        """How often a worker looks for deadlines that others left; `None` where its readers do that as they wait."""
        return min((one.looking for one in self.partitions if one.looking is not None), default=None)

    async def wake_and_look(self, now: datetime | None = None) -> tuple[tuple[str, ...], timedelta | None]:
        """`wake_due`, and how long it is until the next sleeper of any partition is due; `None` without one."""
        woken: list[str] = []
        lefts = []
        for one in self.partitions:
            found, left = await one.wake_and_look(now)
            woken += found
            lefts.append(left)
        return tuple(woken), min((left for left in lefts if left is not None), default=None)

    async def wake_at(self, delivery: Delivery, when: datetime) -> None:
        """Answer for `delivery` and ask for a pass at `when` (aware), in the partition that it came from."""
        partition, inner = self._inner(delivery)
        await partition.wake_at(inner, when)

    async def extend(self, delivery: Delivery, within: timedelta) -> Delivery:
        """A sign of life, worth `within`. Returns the delivery to use from now on."""
        extended: Delivery = await send(self.extension(delivery, within))
        return extended

    async def done(self, delivery: Delivery) -> None:
        """Answer for `delivery`; silent if it is no longer held."""
        partition, inner = self._inner(delivery)
        await partition.done(inner)

    async def cancel(self, workflow: str) -> None:
        """Drop every wakeup of `workflow`, in every partition: it may have had another home when it was queued."""
        check_id(workflow)
        for answer in await send_together([one.cancelling(workflow) for one in self.partitions]):
            if isinstance(answer, Exception):
                raise answer

    async def park(self, delivery: Delivery, reason: str) -> None:
        """Answer for `delivery` and park its workflow, in the partition that it came from; silent if it is not held."""
        partition, inner = self._inner(delivery)
        await partition.park(inner, reason)

    async def parked(self) -> dict[str, str]:
        """The parked workflows of all partitions: JSON text each, with `reason`, and `at` (server's time, ms)."""
        listed: dict[str, str] = {}
        for one in self.partitions:
            listed.update(await one.parked())
        return listed

    async def unpark(self, workflow: str) -> bool:
        """Take `workflow` off the list of every partition, and ask for a pass where it was; whether it was parked."""
        check_id(workflow)
        was = [await one.unpark(workflow) for one in self.partitions]
        return any(was)

    async def available(self, most: int) -> int:
        """How many deliveries could be taken now, abandoned ones included; `most` at most."""
        count = 0
        for one in self.partitions:
            count += await one.available(most - count) if count < most else 0
        return count

    async def trim(self) -> int:
        """Trim every partition that is a stream; how many entries were removed."""
        removed = 0
        for one in self.partitions:
            removed += await one.trim() if isinstance(one, RedisStreamScheduler) else 0
        return removed


_PIECE = timedelta(seconds=1)
"""How long one wait takes at most."""
