# Generated from packages/redis_async/src/durably_redis_async/sweep_partitions.py by twin.py. Edit that file.
"""What a sweep asks of a partitioned queue: it holds what any of its partitions holds."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from durably.sweep_scripts import Look

from durably_redis_sync._client import Call
from durably_redis_sync.partitioned import PartitionedScheduler
from durably_redis_sync.partitioned_calls import Partition
from durably_redis_sync.stream import RedisStreamScheduler
from durably_redis_sync.sweep_queues import Page, SetSide, StreamSide


def side_of(queue: Partition) -> StreamSide | SetSide:
    """One queue of Redis, as a sweep sees it."""
    return StreamSide(queue) if isinstance(queue, RedisStreamScheduler) else SetSide(queue)


class PartitionedSide:
    """Several queues that are one. How far a sweep has come is kept with the first: it is one of them as they grow."""

    def __init__(self, queue: PartitionedScheduler) -> None:
        self.queue = queue
        self.sides = [side_of(one) for one in queue.partitions]
        first = self.sides[0]
        self.redis: Any = first.redis
        self.progress, self.lock = first.progress, first.lock

    def missing(self, asked: Mapping[str, Look]) -> list[str]:
        """Those that no partition holds, and that were cancelled in none since: a workflow may have had another home."""
        left = dict(asked)
        for side in self.sides:
            held_nowhere = side.missing(left) if left else []
            since = side.since(held_nowhere)
            left = {name: left[name] for name in held_nowhere if since.get(name, -1) < left[name].moment}
        return list(left)

    def mending(self, workflow: str, look: Look) -> Call:
        """Ask for what the workflow is owed in its home; see `Side`."""
        home = self.queue.home(workflow)
        number = next(n for n, one in enumerate(self.queue.partitions) if one is home)
        return self.sides[number].mending(workflow, look)

    def sleepers(self, cursor: str) -> Page:
        """See `Side`."""
        side, at, following = self._at(cursor)
        inner, found = side.sleepers(at)
        return following(inner), found

    def cancelled(self, cursor: str) -> Page:
        """See `Side`."""
        side, at, following = self._at(cursor)
        inner, found = side.cancelled(at)
        return following(inner), found

    def _at(self, cursor: str) -> tuple[StreamSide | SetSide, str, Any]:
        """Where a cursor points: the partition, the cursor in it, and what makes the next cursor of its next one."""
        number, _, at = cursor.rpartition("/")
        n = int(number) if number.isdigit() else 0
        if n >= len(self.sides):  # the queue has shrunk
            n, at = 0, "0"

        def following(inner: str) -> str:
            if inner != "0":
                return f"{n}/{inner}"
            return f"{n + 1}/0" if n + 1 < len(self.sides) else "0"

        return self.sides[n], at or "0", following

    def consumers(self, idle: timedelta) -> tuple[str, ...]:
        """See `Side`."""
        removed: list[str] = []
        for side in self.sides:
            removed += [name for name in side.consumers(idle) if name not in removed]
        return tuple(removed)
