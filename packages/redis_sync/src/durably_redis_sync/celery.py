"""Passes as Celery tasks, for a fleet that Celery runs. Written by hand; the other flavour has no such thing.

Which workflow needs a pass, and when, stays in the scheduler; a Celery message only says "take one wakeup and run a
pass for it". So a message that Celery loses, repeats or delays changes nothing: each Celery worker also sends, every
`tick`, as many messages as there are wakeups waiting, among them due sleepers and passes whose worker died.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Protocol, runtime_checkable
from uuid import uuid4

from celery import Celery, signals
from durably.durations import check_duration
from durably.keys import check_id
from durably.values import BUDGET, Delivery

from durably_redis_sync.interfaces import Durable
from durably_redis_sync.passes import CONTENDED, advance
from durably_redis_sync.run import Run

_log = logging.getLogger("durably.celery")

TICK = timedelta(seconds=1)
"""How often a Celery worker looks for wakeups that wait."""

MOST = 100
"""How many messages one look sends at most."""

_BRIEFLY = timedelta(milliseconds=1)


@runtime_checkable
class CountsAvailable(Protocol):
    """A queue that can say how many deliveries could be taken now."""

    def available(self, most: int) -> int:
        """How many, `most` at most."""
        ...


def durable_task(
    app: Celery,
    durable: Durable[Any],
    body: Callable[[Run], object],
    *,
    name: str | None = None,
    budget: timedelta = BUDGET,
    contended: timedelta = CONTENDED,
    tick: timedelta = TICK,
    **options: Any,
) -> Any:
    """A Celery task that runs one pass of `body`: for `task.delay(workflow)`, and for whatever else waits.

    The task takes a workflow's id, makes it ready, takes one wakeup (the oldest that waits, not necessarily that
    one) and runs its pass; it returns the kind of the outcome, or `None` when nothing waited. A pass that fails fails
    the task, and is taken again when its lease is over. `name`: the task's (default: the body's module and name).
    `budget`, `contended`: as for `work`. `tick`: how often each Celery worker looks for wakeups that wait. `options`:
    Celery's own. Raises `TypeError` for a scheduler that cannot count what is available, `ValueError` for a duration
    that is not positive.
    """
    scheduler = durable.scheduler
    if not isinstance(scheduler, CountsAvailable):
        raise TypeError(
            f"{type(scheduler).__name__} cannot tell how many wakeups wait: use a Redis scheduler"
        )
    check_duration("a budget", budget)
    check_duration("contended", contended)
    every = check_duration("tick", tick).total_seconds()

    def one_pass(workflow: str | None = None) -> str | None:
        if workflow is not None:
            scheduler.make_ready(check_id(workflow))
        delivery = _take(durable)
        if delivery is None:
            return None
        outcome = advance(durable, body, delivery, budget=budget, contended=contended)
        return None if outcome is None else f"{delivery.workflow}: {type(outcome).__name__.lower()}"

    named = name or f"{body.__module__}.{getattr(body, '__qualname__', 'body')}"
    options.setdefault("ignore_result", True)
    task = app.task(one_pass, name=named, **options)
    pump = _Pump(durable, scheduler, task, every)
    signals.worker_ready.connect(pump.start, weak=False)
    signals.worker_shutting_down.connect(pump.stop, weak=False)
    return task


def _take(durable: Durable[Any]) -> Delivery | None:
    scheduler = durable.scheduler
    scheduler.wake_due()
    return scheduler.reclaim(scheduler.lease) or scheduler.next_ready(_BRIEFLY)


class _Pump:
    """A thread of a Celery worker's main process that sends a message for each wakeup that waits."""

    def __init__(self, durable: Durable[Any], scheduler: CountsAvailable, task: Any, every: float) -> None:
        self._durable = durable
        self._scheduler = scheduler
        self._task = task
        self._every = every
        self._ended = threading.Event()

    def start(self, **_: Any) -> None:
        """Begin, once the Celery worker is ready."""
        self._ended.clear()
        threading.Thread(target=self._run, name=f"durably-pump-{uuid4().hex[:8]}", daemon=True).start()

    def stop(self, **_: Any) -> None:
        """End."""
        self._ended.set()

    def _run(self) -> None:
        prepared = False
        while not self._ended.wait(self._every):
            try:
                if not prepared:
                    self._durable.scheduler.prepare()
                    prepared = True
                self._durable.scheduler.wake_due()
                for _ in range(self._scheduler.available(MOST)):
                    self._task.apply_async(expires=max(10 * self._every, 10.0))
            except Exception:
                _log.exception("wakeups that wait could not be told to Celery, trying again")
