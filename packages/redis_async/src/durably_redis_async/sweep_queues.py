"""What a sweep asks of a queue, for the stream and for the set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple, Protocol

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


class Found(NamedTuple):
    """A workflow that a queue, or one of its parts, knows, and what it says of it."""

    workflow: str
    said: str
    part: Part


Page = tuple[str, list[Found]]


class Part(Protocol):
    """One queue of Redis, as a sweep sees it."""

    def parking(self, workflow: str, score: str, reason: str) -> Call:
        """Park a workflow that sleeps, as a call; its answer is whether it was parked."""
        ...

    def forgiving(self, workflow: str, since: str) -> Call:
        """Take off the note that a workflow was cancelled, unless it has been again, as a call."""
        ...


class Side(Protocol):
    """A queue, as a sweep sees it: one of Redis, or several that are one."""

    redis: Any
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

    async def cancelled(self, cursor: str) -> Page:
        """A page of the workflows that were cancelled, and when (ms)."""
        ...

    async def consumers(self, idle: timedelta) -> tuple[str, ...]:
        """Remove consumers without a sign of life for `idle` that hold nothing; which ones."""
        ...


def _holds(score: float | None, look: Look) -> bool:
    """Whether a workflow that the set has so is owed nothing more. A deadline to come is not enough for news."""
    if score is None:
        return False
    return look.kind != "news" or score <= look.now or score != int(score)


class _Dropped:
    """A queue's notes of cancellations."""

    redis: Any
    dropped: str

    async def cancelled(self, cursor: str) -> Page:
        """See `Side`."""
        command = ("HSCAN", self.dropped, cursor, "COUNT", scripts.PAGE)
        following, found = await send(Call(self.redis, command, scripts.pairs_of))
        part: Any = self
        return following, [Found(name, since, part) for name, since in found]

    def forgiving(self, workflow: str, since: str) -> Call:
        """See `Part`."""
        return register(self.redis, scripts.FORGIVE).call([self.dropped], [workflow, since], bool)

    async def since(self, names: Sequence[str]) -> dict[str, int]:
        """When those of `names` that were cancelled were, ms."""
        asked = [Call(self.redis, ("HGET", self.dropped, name), as_text) for name in names]
        found: dict[str, int] = {}
        for name, said in zip(names, await send_together(asked), strict=True):
            if isinstance(said, Exception):
                raise said
            if said is not None:
                found[name] = int(str(said))
        return found


class StreamSide(_Dropped):
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
                keys = [self.queue.ready_key, self.queue.marks_key]
                queued = register(self.redis, scripts.STREAM_QUEUED).call(keys, args, list)
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
        following, found = await send(Call(self.redis, command, scripts.pairs_of))
        return following, [Found(name, score, self) for name, score in found]

    def parking(self, workflow: str, score: str, reason: str) -> Call:
        """See `Part`."""
        keys = [self.queue.sleeping_key, parked_key(self.queue.namespace)]
        return register(self.redis, scripts.STREAM_PARK_SLEEPER).call(keys, [workflow, score, reason], bool)

    async def consumers(self, idle: timedelta) -> tuple[str, ...]:
        """See `Side`."""
        args: list[str | int] = [self.queue.group, milliseconds(idle), self.queue.consumer, REMEMBERED]
        keys = [self.queue.ready_key, swept_key(self.queue.namespace, fresh())]
        script = register(self.redis, scripts.STREAM_CONSUMERS)
        removed: list[Any] = await send(script.call(keys, args, list))
        return tuple(str(as_text(one)) for one in removed)


class SetSide(_Dropped):
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
        keys = [self.queue.schedule_key, self.dropped, self.queue._slept, self.queue._bell]
        args: list[str | int] = [workflow, look.moment, due, self.queue._moment()]
        return register(self.redis, scripts.SET_MEND).call(keys, args, bool)

    async def sleepers(self, cursor: str) -> Page:
        """See `Side`."""
        command = ("HSCAN", set_slept_key(self.queue.namespace), cursor, "COUNT", scripts.PAGE)
        following, found = await send(Call(self.redis, command, scripts.pairs_of))
        scores = await self._scores([name for name, _ in found])
        return following, [Found(name, repr(one), self) for name, one in scores.items() if one is not None]

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
        """See `Part`."""
        namespace = self.queue.namespace
        keys = [self.queue.schedule_key, set_parked_key(namespace), set_slept_key(namespace)]
        return register(self.redis, scripts.SET_PARK_SLEEPER).call(keys, [workflow, score, reason], bool)

    async def consumers(self, idle: timedelta) -> tuple[str, ...]:
        """There are none."""
        return ()
