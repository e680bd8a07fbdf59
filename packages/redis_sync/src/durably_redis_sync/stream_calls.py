# Generated from packages/redis_async/src/durably_redis_async/stream_calls.py by twin.py. Edit that file.
"""What the stream scheduler does with a wakeup, each act said as one call: to be sent alone, with others in one round
trip, or as one script with another."""

from __future__ import annotations

from datetime import datetime, timedelta

from durably import queue_scripts as queue
from durably.durations import check_duration
from durably.fresh import nonce
from durably.keys import cancelled_key, check_id, dropped_key, parked_key, ready_key, sleeping_key, sweep_key
from durably.sweep_scripts import STREAM_MEND
from durably.values import Delivery

from durably_redis_sync._client import AnyRedis, Call, Script, is_cluster, register
from durably_redis_sync.alarms import Alarms


class StreamCalls:
    """The acts of a `RedisStreamScheduler` as calls."""

    redis: AnyRedis
    namespace: str
    group: str
    consumer: str
    scan: int
    alarms: Alarms
    ring: Script
    suspend: Script
    hold: Script
    answer: Script
    mark_cancelled: Script
    stands: Script

    @property
    def gathers(self) -> bool:
        """Whether its calls wait for nothing but their turn and their answers: not where a node is looked for first."""
        return not is_cluster(self.redis)

    @property
    def ready_key(self) -> str:
        """The stream's key."""
        return ready_key(self.namespace)

    @property
    def sleeping_key(self) -> str:
        """The sleepers' key."""
        return sleeping_key(self.namespace)

    @property
    def marks_key(self) -> str:
        """The key of the marks that cancellations leave."""
        return cancelled_key(self.namespace)

    @property
    def _parked(self) -> str:
        return parked_key(self.namespace)

    @property
    def _dropped(self) -> str:
        return dropped_key(self.namespace)

    def ringing(self, workflow: str) -> Call:
        """`make_ready` as a call, to be sent with others or in one script with them."""
        return self.ring.call([self.ready_key], [check_id(workflow)], bool)

    def asking_again(self, workflow: str, since: int) -> Call:
        """`make_ready` as a call, for a workflow that was not cancelled at `since` (ms) or later."""
        keys = [self.ready_key, self.sleeping_key, self._dropped]
        return register(self.redis, STREAM_MEND).call(keys, [check_id(workflow), since, ""], bool)

    def suspending(self, delivery: Delivery, when: datetime) -> Call:
        """`wake_at` as a call, to be sent with others."""
        keys = [self.ready_key, self.sleeping_key, self.marks_key]
        args = [self.group, self.consumer, delivery.receipt, delivery.workflow, queue.unix_seconds(when)]

        def answer(left: int) -> bool:
            if left:
                self.alarms.own(left)
            return bool(left)

        return self.suspend.call(keys, args, answer)

    def extension(self, delivery: Delivery, within: timedelta) -> Call:
        """`extend` as a call, to be sent with others."""
        check_duration("within", within)
        return self.hold.call(
            [self.ready_key], [self.group, self.consumer, delivery.receipt], lambda _: delivery
        )

    def telling(self, delivery: Delivery) -> Call:
        """The queue's clock, as a call: the time of the server that it is on."""
        return Call(self.redis, ("TIME",), queue.server_time, at=self.ready_key)

    def holding(self, delivery: Delivery) -> Call:
        """Whether `delivery` still stands: not taken over, not cancelled. A call, to be sent with others."""
        args = [self.group, self.consumer, delivery.receipt, delivery.workflow]
        return self.stands.call([self.ready_key, self.marks_key], args, bool)

    def cancelling(self, workflow: str, note: bool = True) -> Call:
        """`cancel` as a call, to be sent with others or in one script with them. `note`: keep in mind that it was
        cancelled; where its records go too, that is needed only where there are sweeps."""
        keys = [self.ready_key, self.sleeping_key, self.marks_key, self._parked, self._dropped]
        keys.append(sweep_key(self.namespace))
        args: list[str | int] = [check_id(workflow), self.scan, nonce(), "1" if note else ""]
        return self.mark_cancelled.call(keys, args, lambda _: None)

    def answering(self, delivery: Delivery) -> Call:
        """`done` as a call, to be sent with others."""
        return self.answer.call([self.ready_key], [self.group, self.consumer, delivery.receipt], bool)
