# Generated from packages/redis_async/src/durably_redis_async/parking.py by twin.py. Edit that file.
"""Workflows that are parked: no pass is asked for until somebody takes one off the list again. For both queues."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from durably import queue_scripts as queue
from durably.keys import (
    answers_key,
    check_id,
    dropped_key,
    parked_key,
    ready_key,
    schedule_key,
    set_dropped_key,
    set_parked_key,
    set_slept_key,
    unparked_key,
)
from durably.values import Delivery

from durably_redis_sync._client import Call, register, send


def _listed(client: Any, key: str) -> dict[str, str]:
    def answer(fields: Any) -> dict[str, str]:
        pairs = fields.items() if hasattr(fields, "items") else zip(fields[::2], fields[1::2], strict=True)
        return {str(workflow): str(why) for workflow, why in pairs}

    listed: dict[str, str] = send(Call(client, ("HGETALL", key), answer))
    return listed


class StreamParking:
    """What a stream scheduler does about workflows that are parked."""

    redis: Any
    namespace: str
    group: str
    consumer: str

    @property
    def _kept_keys(self) -> list[str]:
        """What a cancellation touches beside the queue."""
        return [parked_key(self.namespace), dropped_key(self.namespace)]

    def park(self, delivery: Delivery, reason: str) -> None:
        """Answer for `delivery` and park its workflow, in one step; silent if it is no longer held."""
        keys = [ready_key(self.namespace), parked_key(self.namespace)]
        args = [self.group, self.consumer, delivery.receipt, delivery.workflow, reason]
        send(register(self.redis, queue.STREAM_PARK).call(keys, args, bool))

    def parked(self) -> dict[str, str]:
        """The parked workflows: JSON text each, with `reason`, and `at` (server's time, ms)."""
        return _listed(self.redis, parked_key(self.namespace))

    def unpark(self, workflow: str) -> bool:
        """Take `workflow` off the list and ask for a pass over it; whether it was parked."""
        said = unparked_key(parked_key(self.namespace), uuid4().hex)
        keys = [ready_key(self.namespace), parked_key(self.namespace), said]
        call = register(self.redis, queue.STREAM_UNPARK).call(
            keys, [check_id(workflow), queue.REMEMBERED], bool
        )
        return bool(send(call))


class SetParking:
    """What a set scheduler does about workflows that are parked."""

    redis: Any
    namespace: str

    @property
    def _slept(self) -> str:
        return set_slept_key(self.namespace)

    @property
    def _kept_keys(self) -> list[str]:
        """What a cancellation touches beside the queue."""
        return [self._slept, set_parked_key(self.namespace), set_dropped_key(self.namespace)]

    def _moment(self) -> str | int:
        return ""

    def park(self, delivery: Delivery, reason: str) -> None:
        """Answer for `delivery` and park its workflow, in one step; silent if it is no longer held."""
        names = (schedule_key, set_parked_key, answers_key, set_slept_key)
        args = [delivery.workflow, delivery.receipt, reason]
        keys = [name(self.namespace) for name in names]
        send(register(self.redis, queue.SET_PARK).call(keys, args, bool))

    def parked(self) -> dict[str, str]:
        """The parked workflows: JSON text each, with `reason`, and `at` (server's time, ms)."""
        return _listed(self.redis, set_parked_key(self.namespace))

    def unpark(self, workflow: str) -> bool:
        """Take `workflow` off the list and make it visible; whether it was parked."""
        said = unparked_key(set_parked_key(self.namespace), uuid4().hex)
        keys = [schedule_key(self.namespace), set_parked_key(self.namespace), said]
        args: list[str | int] = [check_id(workflow), queue.REMEMBERED, self._moment()]
        return bool(send(register(self.redis, queue.SET_UNPARK).call(keys, args, bool)))
