# Generated from packages/redis_async/src/durably_redis_async/partitioned_calls.py by twin.py. Edit that file.
"""What a partitioned queue does with a wakeup, each act said as one call to the partition that it is about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from zlib import crc32

from durably.keys import check_id
from durably.values import Delivery

from durably_redis_sync._client import Call
from durably_redis_sync.sorted_set import RedisSetScheduler
from durably_redis_sync.stream import RedisStreamScheduler

Partition = RedisStreamScheduler | RedisSetScheduler
"""A queue that can be a part of another."""


class PartitionedCalls:
    """The acts of a `PartitionedScheduler` as calls."""

    partitions: Sequence[Partition]
    spread: int | None

    def home(self, workflow: str) -> Partition:
        """The partition that new wakeups of `workflow` go to."""
        spread = len(self.partitions) if self.spread is None else self.spread
        return self.partitions[crc32(check_id(workflow).encode("utf-8")) % spread]

    def ringing(self, workflow: str) -> Call:
        """`make_ready` as a call, to be sent with others or in one script with them."""
        return self.home(workflow).ringing(workflow)

    def asking_again(self, workflow: str, since: int) -> Call:
        """`make_ready` as a call, for a workflow that was not cancelled at `since` (ms) or later."""
        return self.home(workflow).asking_again(workflow, since)

    def holding(self, delivery: Delivery) -> Call:
        """Whether `delivery` still stands, as a call."""
        partition, inner = self._inner(delivery)
        return partition.holding(inner)

    def telling(self, delivery: Delivery) -> Call:
        """The clock of the partition that `delivery` came from, as a call."""
        partition, inner = self._inner(delivery)
        return partition.telling(inner)

    def extension(self, delivery: Delivery, within: timedelta) -> Call:
        """`extend` as a call."""
        partition, inner = self._inner(delivery)
        number = delivery.receipt.partition("|")[0]
        return partition.extension(inner, within).then(
            lambda renewed: replace(renewed, receipt=f"{number}|{renewed.receipt}")
        )

    def suspending(self, delivery: Delivery, when: datetime) -> Call:
        """`wake_at` as a call."""
        partition, inner = self._inner(delivery)
        return partition.suspending(inner, when)

    def answering(self, delivery: Delivery) -> Call:
        """`done` as a call."""
        partition, inner = self._inner(delivery)
        return partition.answering(inner)

    def _outer(self, number: int, delivery: Delivery) -> Delivery:
        return replace(delivery, receipt=f"{number}|{delivery.receipt}")

    def _inner(self, delivery: Delivery) -> tuple[Partition, Delivery]:
        number, _, receipt = delivery.receipt.partition("|")
        if not number.isdigit() or int(number) >= len(self.partitions):
            raise ValueError(f"the delivery {delivery!r} is of another queue")
        return self.partitions[int(number)], replace(delivery, receipt=receipt)
