# Generated from packages/redis_async/src/durably_redis_async/sweeper.py by twin.py. Edit that file.
"""The sweep: mends what a process that died between two writes, or a queue that lost data, has left behind.

One pass is bounded, and the next one goes on where it ended, whoever makes it. See `docs/guarantees.md` for what it
mends.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from durably import sweep_scripts as scripts
from durably.durations import check_duration, milliseconds
from durably.fresh import nonce
from durably.queue_scripts import as_text
from durably.signals import CheckpointGone
from durably.sweep_scripts import Look

from durably_redis_sync._client import Call, register, send, send_together
from durably_redis_sync._concurrency import Event, wait_for
from durably_redis_sync.checkpointer import RedisCheckpointer
from durably_redis_sync.interfaces import Durable
from durably_redis_sync.partitioned import PartitionedScheduler
from durably_redis_sync.scanning import scan_some
from durably_redis_sync.sorted_set import RedisSetScheduler
from durably_redis_sync.stream import RedisStreamScheduler
from durably_redis_sync.streams import Sink, from_sink
from durably_redis_sync.sweep_partitions import PartitionedSide, side_of
from durably_redis_sync.sweep_queues import Found, Side

SWEEP_EVERY = timedelta(minutes=5)
"""How often the workers of a namespace sweep, one of them at a time."""

SETTLED = timedelta(minutes=1)
"""For how long nothing must have happened to a workflow before a sweep acts on it."""

_CONSUMERS_IDLE = timedelta(hours=1)
_LEASES = 10
_KEYS = 20
"""How many keys of the database one pass looks at, matching or not, per workflow that it may look at."""

_MARKS = 5
"""How many marks of cancellations one pass looks at per workflow that it looks at."""

_DONE = "."
"""Stands for the cursor of what this round has been through, until it has been through all."""

_IN_A_ROW = 20
"""How many passes a worker makes at a time, at the most."""

_log = logging.getLogger("durably.worker")


@dataclass(frozen=True, slots=True)
class Swept:
    """What one pass of the sweep did: the ids of workflows, and the names of consumers.

    `woken`: those that were made ready; `asleep`: those whose deadline was put back into the queue; `parked`: sleepers
    whose records are gone; `consumers`: those removed. `looked`: how many workflows it looked at. `cursor`: how far
    it has come, `"0"` when all have been looked at; the next pass goes on from there.
    """

    woken: tuple[str, ...]
    asleep: tuple[str, ...]
    parked: tuple[str, ...]
    consumers: tuple[str, ...]
    looked: int
    cursor: str


def can_sweep(durable: Durable[Any]) -> bool:
    """Whether `sweep` knows this pair."""
    queues = (RedisStreamScheduler, RedisSetScheduler, PartitionedScheduler)
    return isinstance(durable.checkpointer, RedisCheckpointer) and isinstance(durable.scheduler, queues)


def sweep(
    durable: Durable[Any],
    *,
    limit: int = 1000,
    settled: timedelta = SETTLED,
    consumers_idle: timedelta | None = None,
) -> Swept:
    """One pass of the sweep over a Redis store and a Redis queue. Safe at any time, in every process at once.

    `limit`: how many workflows it looks at, or little more. `settled`: for how long nothing must have happened to a
    workflow before it is acted on. `consumers_idle`: for how long a consumer must have shown no sign of life (unset:
    an hour, or ten leases if that is longer). Raises `TypeError` for other stores and queues, `ValueError` for what is
    out of range.
    """
    side = _side(durable)
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise ValueError(f"limit must be 1 or more, not {limit!r}")
    check_duration("settled", settled)
    if consumers_idle is None:
        consumers_idle = max(_CONSUMERS_IDLE, _LEASES * durable.scheduler.lease)
    check_duration("consumers_idle", consumers_idle)
    return _Pass(durable.checkpointer, side, milliseconds(settled)).run(limit, consumers_idle)


def sweeping(durable: Durable[Any]) -> Sink[object]:
    """A sink that makes one pass of the sweep per event, whatever the event: drive it with `ticks(SWEEP_EVERY)`."""
    _side(durable)

    def once(_: object) -> None:
        sweep(durable)

    return from_sink(once)


def sweep_now_and_then(durable: Durable[Any], every: timedelta, ended: Event) -> None:
    """Sweep until `ended` is set, about once per `every` in all processes of a namespace. A failure is logged."""
    side = _side(durable)
    pause = random.uniform(0.1, 1.0)
    while not wait_for(ended, every.total_seconds() * pause):
        pause = random.uniform(0.8, 1.2)
        try:
            command = ("SET", side.lock, nonce(), "NX", "PX", milliseconds(every * 0.8))
            if not send(Call(side.redis, command, bool)):
                continue
            for _ in range(_IN_A_ROW):
                if (sweep(durable)).cursor == "0" or ended.is_set():
                    break
        except Exception as error:
            _log.warning("a sweep failed, the next one is to come: %r", error)


def _side(durable: Durable[Any]) -> Side:
    if not can_sweep(durable):
        raise TypeError(
            "a sweep needs a RedisCheckpointer and a Redis scheduler, not "
            f"{type(durable.checkpointer).__name__} and {type(durable.scheduler).__name__}"
        )
    queue: Any = durable.scheduler
    return PartitionedSide(queue) if isinstance(queue, PartitionedScheduler) else side_of(queue)


@dataclass
class _Pass:
    store: Any
    side: Side
    settled: int

    def run(self, limit: int, consumers_idle: timedelta) -> Swept:
        keys = ("store", "sleepers", "dropped")
        # from now on deletions are noted, too
        send(Call(self.side.redis, ("HSETNX", self.side.progress, keys[0], "0"), bool))
        told = send(Call(self.side.redis, ("HMGET", self.side.progress, *keys), list))
        at, sleepers_at, dropped_at = [str(as_text(one) or "0") for one in told]
        woken: list[str] = []
        asleep: list[str] = []
        looked = 0
        left = max(2, -(-_KEYS * limit // scripts.SCANNED))
        while left and looked < limit and at != _DONE:
            left -= 1
            at, found = scan_some(
                self.store.redis, at, scripts.pattern(self.store.namespace), scripts.SCANNED
            )
            known = {scripts.workflow_of(self.store.namespace, key) for key in found}
            names = sorted(name for name in known if name is not None)
            looked += len(names)
            self._mend(names, woken, asleep)
            at = _DONE if at == "0" else at
        sleepers_at, parked = self._sleepers(sleepers_at, limit)
        dropped_at = self._forgive(dropped_at, _MARKS * limit)
        consumers = self.side.consumers(consumers_idle)
        ats = [at, sleepers_at, dropped_at]
        if set(ats) == {_DONE}:
            ats = ["0"] * len(ats)
        cursor = "0" if set(ats) == {"0"} else " ".join(ats)
        progress = [one for pair in zip(keys, ats, strict=True) for one in pair]
        send(Call(self.side.redis, ("HSET", self.side.progress, *progress), int))
        swept = Swept(tuple(woken), tuple(asleep), tuple(parked), consumers, looked, cursor)
        if woken or asleep or parked:
            _log.warning("a sweep mended what was left behind: %r", swept)
        return swept

    def _look(self, names: Sequence[str]) -> dict[str, Look]:
        script = register(self.store.redis, scripts.LOOK)
        calls = [
            script.call(scripts.look_keys(self.store.namespace, name), [self.settled], scripts.read_look)
            for name in names
        ]
        looks: dict[str, Look] = {}
        for name, look in zip(names, send_together(calls), strict=True):
            if isinstance(look, Look):
                looks[name] = look
            elif "WRONGTYPE" not in str(look):
                assert isinstance(look, Exception)
                raise look
        return looks

    def _mend(self, names: Sequence[str], woken: list[str], asleep: list[str]) -> None:
        asks = {name: look for name, look in (self._look(names)).items() if look.asks}
        missing = self.side.missing(asks) if asks else []
        if not missing:
            return
        again = self._look(missing)
        owed = {name: look for name, look in again.items() if look.kind == asks[name].kind}
        answers = send_together([self.side.mending(name, look) for name, look in owed.items()])
        marks: list[Call] = []
        for (name, look), answer in zip(owed.items(), answers, strict=True):
            if isinstance(answer, Exception):
                raise answer
            if answer:
                (asleep if look.kind == "sleeping" else woken).append(name)
                if look.kind == "lost":
                    where = self.store.pass_key(name)
                    marks.append(Call(self.store.redis, ("HSET", where, "woken", look.there), int))
        # so that those of which nobody has said what they wait for are not woken for these records again
        for answer in send_together(marks):
            if isinstance(answer, Exception):
                raise answer

    def _sleepers(self, at: str, most: int) -> tuple[str, list[str]]:
        """Park those whose records are gone, among `most`; where to go on, and which ones."""
        parked: list[str] = []
        while most > 0 and at != _DONE:
            most -= scripts.PAGE
            at, page = self.side.sleepers(at)
            parked += self._park(page)
            at = _DONE if at == "0" else at
        return at, parked

    def _park(self, page: Sequence[Found]) -> list[str]:
        looks = self._look([one.workflow for one in page])
        calls, names = [], []
        for name, score, part in page:
            look = looks.get(name)
            if look is not None and look.kind in ("gone", "unknown"):
                names.append(name)
                calls.append(part.parking(name, score, str(CheckpointGone(name, str(look.there)))))
        parked = []
        for name, answer in zip(names, send_together(calls), strict=True):
            if isinstance(answer, Exception):
                raise answer
            if answer:
                _log.error("workflow %r is parked: its records are gone, and it sleeps", name)
                parked.append(name)
        return parked

    def _forgive(self, at: str, most: int) -> str:
        """Take off the marks of cancellations that say nothing any more, among `most`; where to go on."""
        while most > 0 and at != _DONE:
            most -= scripts.PAGE
            at = self._forgive_page(at)
            at = _DONE if at == "0" else at
        return at

    def _forgive_page(self, at: str) -> str:
        following, page = self.side.cancelled(at)
        looks = self._look([one.workflow for one in page])
        calls = []
        for name, since, part in page:
            look = looks.get(name)
            if look is None or int(since) > look.now - self.settled:
                continue  # another sweep may have looked before it was cancelled
            if look.there == 0 or look.moment > int(since):
                calls.append(part.forgiving(name, since))
        for answer in send_together(calls):
            if isinstance(answer, Exception):
                raise answer
        return following
