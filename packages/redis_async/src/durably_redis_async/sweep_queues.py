"""What a sweep asks of a queue, for the stream and for the set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Protocol

from durably import sweep_scripts as scripts
from durably.durations import milliseconds
from durably.fresh import fresh
from durably.keys import (
    dropped_key,
    parked_key,
    schedule_key,
    set_dropped_key,
    set_parked_key,
    set_slept_key,
    sweep_key,
    sweep_lock_key,
    swept_key,
)
from durably.queue_scripts import REMEMBERED, as_text
from durably.sweep_scripts import Look

from durably_redis_async._client import Call, register, send, send_together
from durably_redis_async.sorted_set import RedisSetScheduler
from durably_redis_async.stream import RedisStreamScheduler

Page = tuple[str, list[tuple[str, str]]]


class Side(Protocol):
    """A queue, as a sweep sees it."""

    redis: Any
    dropped: str
    progress: str
    lock: str

    async def missing(self, asked: Mapping[str, Look]) -> list[str]:
        """Those of `asked` that the queue does not hold what they are owed of; left out what cannot be told."""
        ...

    def mending(self, workflow: str, look: Look) -> Call:
        """Ask for what the workflow is owed, as a call; its answer is whether it was asked for."""
        ...

    async def sleepers(self, cursor: str) -> Page:
        """A page of the workflows that sleep, and their scores."""
        ...

    def parking(self, workflow: str, score: str, reason: str) -> Call:
        """Park a workflow that sleeps, as a call; its answer is whether it was parked."""
        ...

    async def consumers(self, idle: timedelta) -> tuple[str, ...]:
        """Remove consumers without a sign of life for `idle` that hold nothing; which ones."""
        ...


def _holds(score: float | None, look: Look) -> bool:
    """Whether a workflow that the set has so is owed nothing more. A deadline to come is not enough for news."""
    if score is None:
        return False
    return look.kind != "news" or score <= look.now or score != int(score)


class StreamSide:
    """A stream and its sleepers."""

    def __init__(self, queue: RedisStreamScheduler) -> None:
        self.queue = queue
        self.redis: Any = queue.redis
        self.dropped = dropped_key(queue.namespace)
        home = queue.namespace
        self.progress, self.lock = sweep_key(home), sweep_lock_key(home)

    async def missing(self, asked: Mapping[str, Look]) -> list[str]:
        """Sleepers first, then unread entries, then pending ones: in the order in which wakeups move on."""
        names = list(asked)
        scores = await send_together([self._score(name) for name in names])
        wanted = set()
        for name, score in zip(names, scores, strict=True):
            if isinstance(score, Exception):
                raise score
            if score is None or asked[name].kind == "news":
                wanted.add(name)
        left = scripts.PAGES
        for phase in ("unread", "pending"):
            start, more = "", bool(wanted)
            while more:
                if left == 0:
                    return []
                left -= 1
                args = [self.queue.group, phase, start, scripts.PAGE]
                queued = register(self.redis, scripts.STREAM_QUEUED).call([self.queue.ready_key], args, list)
                start, *held = [str(as_text(one)) for one in await send(queued)]
                wanted -= set(held)
                more = bool(start and wanted)
        return [name for name in names if name in wanted]

    def _score(self, workflow: str) -> Call:
        return Call(self.redis, ("ZSCORE", self.queue.sleeping_key, workflow), lambda score: score)

    def mending(self, workflow: str, look: Look) -> Call:
        """See `Side`."""
        due = scripts.score_of(look.due) if look.kind == "sleeping" and look.due is not None else ""
        keys = [self.queue.ready_key, self.queue.sleeping_key, self.dropped]
        return register(self.redis, scripts.STREAM_MEND).call(keys, [workflow, look.moment, due], bool)

    async def sleepers(self, cursor: str) -> Page:
        """See `Side`."""
        command = ("ZSCAN", self.queue.sleeping_key, cursor, "COUNT", scripts.PAGE)
        page: Page = await send(Call(self.redis, command, scripts.pairs_of))
        return page

    def parking(self, workflow: str, score: str, reason: str) -> Call:
        """See `Side`."""
        keys = [self.queue.sleeping_key, parked_key(self.queue.namespace)]
        return register(self.redis, scripts.STREAM_PARK_SLEEPER).call(keys, [workflow, score, reason], bool)

    async def consumers(self, idle: timedelta) -> tuple[str, ...]:
        """See `Side`."""
        args: list[str | int] = [self.queue.group, milliseconds(idle), self.queue.consumer, REMEMBERED]
        keys = [self.queue.ready_key, swept_key(self.queue.namespace, fresh())]
        script = register(self.redis, scripts.STREAM_CONSUMERS)
        removed: list[Any] = await send(script.call(keys, args, list))
        return tuple(str(as_text(one)) for one in removed)


class SetSide:
    """A sorted set."""

    def __init__(self, queue: RedisSetScheduler) -> None:
        self.queue = queue
        self.redis: Any = queue.redis
        self.dropped = set_dropped_key(queue.namespace)
        home = schedule_key(queue.namespace)
        self.progress, self.lock = sweep_key(home), sweep_lock_key(home)

    async def missing(self, asked: Mapping[str, Look]) -> list[str]:
        """See `Side`."""
        scores = await self._scores(list(asked))
        return [name for name, look in asked.items() if not _holds(scores[name], look)]

    def mending(self, workflow: str, look: Look) -> Call:
        """See `Side`."""
        due = str(look.due) if look.kind == "sleeping" and look.due is not None else ""
        keys = [self.queue.schedule_key, self.dropped, set_slept_key(self.queue.namespace)]
        args: list[str | int] = [workflow, look.moment, due, self.queue._moment()]
        return register(self.redis, scripts.SET_MEND).call(keys, args, bool)

    async def sleepers(self, cursor: str) -> Page:
        """See `Side`."""
        command = ("HSCAN", set_slept_key(self.queue.namespace), cursor, "COUNT", scripts.PAGE)
        page: Page = await send(Call(self.redis, command, scripts.pairs_of))
        scores = await self._scores([name for name, _ in page[1]])
        return page[0], [(name, repr(score)) for name, score in scores.items() if score is not None]

    async def _scores(self, names: Sequence[str]) -> dict[str, float | None]:
        key = self.queue.schedule_key
        asked = [Call(self.redis, ("ZSCORE", key, name), lambda score: score) for name in names]
        found: dict[str, float | None] = {}
        for name, score in zip(names, await send_together(asked), strict=True):
            if isinstance(score, Exception):
                raise score
            said: Any = score
            found[name] = None if said is None else float(said)
        return found

    def parking(self, workflow: str, score: str, reason: str) -> Call:
        """See `Side`."""
        namespace = self.queue.namespace
        keys = [self.queue.schedule_key, set_parked_key(namespace), set_slept_key(namespace)]
        return register(self.redis, scripts.SET_PARK_SLEEPER).call(keys, [workflow, score, reason], bool)

    async def consumers(self, idle: timedelta) -> tuple[str, ...]:
        """There are none."""
        return ()
