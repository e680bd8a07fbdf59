"""Workflows that are parked: no pass is asked for until somebody takes one off the list again. For both queues."""

from __future__ import annotations

from typing import Any

from durably import queue_scripts as queue
from durably.fresh import nonce
from durably.keys import check_id, unparked_key
from durably.values import Delivery

from durably_redis_async._client import Call, register, send
from durably_redis_async.set_calls import SetCalls
from durably_redis_async.stream_calls import StreamCalls


async def _listed(client: Any, key: str) -> dict[str, str]:
    def answer(fields: Any) -> dict[str, str]:
        pairs = fields.items() if hasattr(fields, "items") else zip(fields[::2], fields[1::2], strict=True)
        return {str(workflow): str(why) for workflow, why in pairs}

    listed: dict[str, str] = await send(Call(client, ("HGETALL", key), answer))
    return listed


class StreamParking(StreamCalls):
    """What a stream scheduler does about workflows that are parked."""

    async def park(self, delivery: Delivery, reason: str) -> None:
        """Answer for `delivery` and park its workflow, in one step; silent if it is no longer held."""
        keys = [self.ready_key, self._parked, self.marks_key]
        args = [self.group, self.consumer, delivery.receipt, delivery.workflow, reason]
        await send(register(self.redis, queue.STREAM_PARK).call(keys, args, bool))

    async def parked(self) -> dict[str, str]:
        """The parked workflows: JSON text each, with `reason`, and `at` (server's time, ms)."""
        return await _listed(self.redis, self._parked)

    async def unpark(self, workflow: str) -> bool:
        """Take `workflow` off the list and ask for a pass over it; whether it was parked."""
        keys = [self.ready_key, self._parked, unparked_key(self._parked, nonce())]
        args: list[str | int] = [check_id(workflow), queue.REMEMBERED]
        return bool(await send(register(self.redis, queue.STREAM_UNPARK).call(keys, args, bool)))


class SetParking(SetCalls):
    """What a set scheduler does about workflows that are parked."""

    async def park(self, delivery: Delivery, reason: str) -> None:
        """Answer for `delivery` and park its workflow, in one step; silent if it is no longer held."""
        keys = [self.schedule_key, self._parked, self._answers, self._slept]
        args = [delivery.workflow, delivery.receipt, reason]
        await send(register(self.redis, queue.SET_PARK).call(keys, args, bool))

    async def parked(self) -> dict[str, str]:
        """The parked workflows: JSON text each, with `reason`, and `at` (server's time, ms)."""
        return await _listed(self.redis, self._parked)

    async def unpark(self, workflow: str) -> bool:
        """Take `workflow` off the list and make it visible; whether it was parked."""
        keys = [self.schedule_key, self._parked, unparked_key(self._parked, nonce()), self._bell]
        args: list[str | int] = [check_id(workflow), queue.REMEMBERED, self._moment()]
        return bool(await send(register(self.redis, queue.SET_UNPARK).call(keys, args, bool)))
