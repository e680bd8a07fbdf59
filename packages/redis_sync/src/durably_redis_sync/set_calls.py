# Generated from packages/redis_async/src/durably_redis_async/set_calls.py by twin.py. Edit that file.
"""What the set scheduler does with a wakeup, each act said as one call: to be sent alone, with others in one round trip,
or as one script with another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

from durably import queue_scripts as queue
from durably.durations import check_duration, milliseconds
from durably.fresh import nonce
from durably.keys import (
    answers_key,
    bell_key,
    check_id,
    receipts_key,
    schedule_key,
    set_dropped_key,
    set_parked_key,
    set_slept_key,
    sweep_key,
)
from durably.sweep_scripts import SET_MEND
from durably.values import Delivery, now_utc

from durably_redis_sync._client import AnyRedis, Call, Script, is_cluster, register
from durably_redis_sync.alarms import Alarms


class SetCalls:
    """The acts of a `RedisSetScheduler` as calls."""

    redis: AnyRedis
    namespace: str
    now: Callable[[], datetime]
    doorbell: bool
    alarms: Alarms
    ring: Script
    suspend: Script
    keep: Script
    stands: Script
    drop: Script
    finish: Script

    @property
    def gathers(self) -> bool:
        """Whether its calls wait for nothing but their turn and their answers: not where a node is looked for first."""
        return not is_cluster(self.redis)

    @property
    def schedule_key(self) -> str:
        """The sorted set's key."""
        return schedule_key(self.namespace)

    @property
    def _answers(self) -> str:
        return answers_key(self.namespace)

    @property
    def _bell(self) -> str:
        return bell_key(self.namespace)

    @property
    def _slept(self) -> str:
        return set_slept_key(self.namespace)

    @property
    def _parked(self) -> str:
        return set_parked_key(self.namespace)

    @property
    def _dropped(self) -> str:
        return set_dropped_key(self.namespace)

    @property
    def _rings(self) -> bool:
        return self.doorbell and self.now is now_utc

    def _moment(self) -> str | int:
        return "" if self.now is now_utc else queue.unix_milliseconds(self.now())

    def ringing(self, workflow: str) -> Call:
        """`make_ready` as a call, to be sent with others or in one script with them."""
        return self.ring.call([self.schedule_key, self._bell], [check_id(workflow), self._moment()], bool)

    def asking_again(self, workflow: str, since: int) -> Call:
        """`make_ready` as a call, for a workflow that was not cancelled at `since` (ms) or later."""
        keys = [self.schedule_key, self._dropped, self._slept, self._bell]
        args: list[str | int] = [check_id(workflow), since, "", self._moment()]
        return register(self.redis, SET_MEND).call(keys, args, bool)

    def suspending(self, delivery: Delivery, when: datetime) -> Call:
        """`wake_at` as a call, to be sent with others."""
        args = (delivery.workflow, delivery.receipt, queue.unix_milliseconds(when), self._near)

        def answer(left: int) -> bool:
            if left and self._rings:
                self.alarms.own(left)
            return bool(left)

        keys = [self.schedule_key, self._answers, self._bell, self._slept]
        return self.suspend.call(keys, args, answer)

    @property
    def _near(self) -> int:
        """Whether the bell is to ring for a near deadline: not where a worker's alarm does."""
        return 0 if self.alarms else 1

    def extension(self, delivery: Delivery, within: timedelta) -> Call:
        """`extend` as a call, to be sent with others."""
        hidden = milliseconds(check_duration("within", within))
        request = (
            delivery.workflow,
            delivery.receipt,
            hidden,
            self._moment(),
            nonce(),
            queue.ANSWERS,
            self._near,
        )

        def answer(receipt: object) -> Delivery:
            return delivery if receipt is None else replace(delivery, receipt=str(receipt))

        keys = [self.schedule_key, receipts_key(self.namespace), self._answers, self._bell]
        return self.keep.call(keys, request, answer)

    def telling(self, delivery: Delivery) -> Call:
        """The queue's clock, as a call: the time of the server that it is on."""
        return Call(self.redis, ("TIME",), queue.server_time, at=self.schedule_key)

    def holding(self, delivery: Delivery) -> Call:
        """Whether `delivery` still stands: not cancelled, not answered for. A call, to be sent with others."""
        return self.stands.call([self.schedule_key], [delivery.workflow], bool)

    def cancelling(self, workflow: str, note: bool = True) -> Call:
        """`cancel` as a call, to be sent with others or in one script with them. `note`: keep in mind that it was
        cancelled; where its records go too, that is needed only where there are sweeps."""
        keys = [self.schedule_key, self._answers, self._slept, self._parked, self._dropped]
        keys.append(sweep_key(self.schedule_key))
        return self.drop.call(keys, [check_id(workflow), "1" if note else ""], lambda _: None)

    def answering(self, delivery: Delivery) -> Call:
        """`done` as a call, to be sent with others."""
        keys = [self.schedule_key, self._answers, self._slept]
        return self.finish.call(keys, [delivery.workflow, delivery.receipt], bool)
