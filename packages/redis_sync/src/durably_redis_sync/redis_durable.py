# Generated from packages/redis_async/src/durably_redis_async/redis_durable.py by twin.py. Edit that file.
"""A store and a queue in one database: what concerns both is one script."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from durably.fresh import fresh
from durably.posting import FILED, Intention, can_fill
from durably.scripts import refused
from durably.values import INPUT, Entry, Pass

from durably_redis_sync._client import (
    ResponseError,
    in_one_script,
    in_one_step,
    is_cluster,
    same_database,
    send,
)
from durably_redis_sync.checkpointer import RedisCheckpointer
from durably_redis_sync.sorted_set import RedisSetScheduler
from durably_redis_sync.stream import RedisStreamScheduler


@dataclass(frozen=True)
class RedisDurable:
    """`SplitDurable` without the window between its two writes: a value and its wakeup are one script, so is a deletion.

    Both halves must use one database of one server, because a script runs in one place. Raises `ValueError` where
    their clients do not, `TypeError` for halves of another kind. On a cluster the keys of a workflow and those of a
    queue are in different slots: use `SplitDurable` there.
    """

    checkpointer: RedisCheckpointer
    scheduler: RedisStreamScheduler | RedisSetScheduler

    def __post_init__(self) -> None:
        if not isinstance(self.checkpointer, RedisCheckpointer):
            raise TypeError(f"a RedisCheckpointer is needed, not {type(self.checkpointer).__name__}")
        if not isinstance(self.scheduler, (RedisStreamScheduler, RedisSetScheduler)):
            raise TypeError(f"a Redis scheduler is needed, not {type(self.scheduler).__name__}")
        if is_cluster(self.checkpointer.redis) or is_cluster(self.scheduler.redis):
            raise ValueError(
                "on a cluster the keys of a workflow and those of a queue are in different slots, "
                "where one script cannot reach both: use SplitDurable"
            )
        if not same_database(self.checkpointer.redis, self.scheduler.redis):
            raise ValueError(
                "the store and the queue are in two databases, where one script cannot reach both: "
                "build them on one client, or use SplitDurable"
            )

    def start(self, workflow: str, value: object = None, *, key: str = INPUT) -> object:
        """Record the workflow's input and ask for a pass, in one step; returns what is recorded now: the first start's
        input."""
        return self.arrive(workflow, key, value)

    def arrive(self, workflow: str, key: str, value: object) -> object:
        """Supply `value` under `key` and ask for a pass, in one step; returns what is recorded now."""
        supply = self.checkpointer.supplying(workflow, key, value)
        self.checkpointer.prepare()
        stands, _ = send(in_one_script(supply, self.scheduler.ringing(workflow)))
        return stands

    def deliver(self, workflow: str, value: object, *, once: str | None = None) -> Entry[object]:
        """Append a message and ask for a pass, in one step. `once`: the message's own name; a repeat under it files
        nothing."""
        append = self.checkpointer.appending(workflow, value, once)
        self.checkpointer.prepare()
        filed: tuple[Entry[object], object] = send(in_one_script(append, self.scheduler.ringing(workflow)))
        return filed[0]

    def post_in_step(self, holder: Pass, key: str, workflow: str, value: object, under: str | None) -> object:
        """Record the step `key`, and with it start `workflow` (its input under `under`) or send it a message (`None`),
        in one step; returns what is recorded under `key`: a repeat does nothing more.

        For `run.start` and `run.send`. Raises `Fenced` if the claim is lost.
        """
        store = self.checkpointer
        if under is None and not can_fill(store.codec, holder.workflow, key):
            return (store.record(holder, key, Intention(workflow, None, value, fresh()).plain())).value
        if under is None:
            write, sending = store.recording(holder, key, FILED), store.appending(workflow, value)
        else:
            write, sending = store.recording(holder, key, workflow), store.supplying(workflow, under, value)
        look = store.looking(holder, key)
        store.prepare()

        def answer(stored: Any, said: Any) -> object:
            if stored is not None:
                return look.answer(stored)
            return workflow if under is not None else sending.answer(said).key

        ring = self.scheduler.ringing(workflow)
        mark = FILED if under is None else ""
        try:
            return send(in_one_step(look, ring, sending, write, mark, answer))
        except ResponseError as error:
            ours = refused(str(error), holder.workflow, key)
            raise error if ours is None else ours from None

    def delete(self, workflow: str) -> int:
        """Cancel `workflow` and discard its records, in one step; returns how many there were.

        From that step on none of its wakeups begins a pass.
        """
        cancel = self.scheduler.cancelling(workflow, note=False)
        _, removed = send(in_one_script(cancel, self.checkpointer.discarding(workflow)))
        return int(removed)
