"""A store and a queue side by side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from durably.keys import check_id
from durably.signals import NotDurable
from durably.values import INPUT, Entry

from durably_redis_async.interfaces import Checkpointer, Scheduler

Effect = TypeVar("Effect")


@dataclass(frozen=True)
class SplitDurable(Generic[Effect]):
    """Two stores, two writes. A value is recorded first and the wakeup queued after it; a deletion cancels first.

    A process that dies between the two leaves a value without its wakeup: send it again (the first value stands),
    or make the workflow ready.
    """

    checkpointer: Checkpointer[Effect]
    scheduler: Scheduler

    async def start(self, workflow: str, value: object = None, *, key: str = INPUT) -> object:
        """Record the workflow's input and ask for a pass; returns what is recorded now: the first start's input."""
        return await self.arrive(workflow, key, value)

    async def arrive(self, workflow: str, key: str, value: object) -> object:
        """Supply `value` under `key` and ask for a pass; returns what is recorded now."""
        try:
            stands = await self.checkpointer.supply(workflow, key, value)
        except NotDurable:  # it stands, and is worked on, whether or not it lasts
            await self.scheduler.make_ready(workflow)
            raise
        await self.scheduler.make_ready(workflow)
        return stands

    async def deliver(self, workflow: str, value: object, *, once: str | None = None) -> Entry[object]:
        """Append a message and ask for a pass. `once`: the message's own name; a repeat under it files nothing."""
        try:
            entry = await self.checkpointer.append(
                workflow, value, **({} if once is None else {"once": once})
            )
        except NotDurable:
            await self.scheduler.make_ready(workflow)
            raise
        await self.scheduler.make_ready(workflow)
        return entry

    async def delete(self, workflow: str) -> int:
        """Cancel `workflow`, then discard its records; returns how many there were."""
        check_id(workflow)
        await self.scheduler.cancel(workflow)
        return await self.checkpointer.discard(workflow)
