# Generated from packages/redis_async/src/durably_redis_async/passes.py by twin.py. Edit that file.
"""Passes side by side, one per delivery, each kept alive while it runs.

A workflow's failure never stops the worker. A wakeup whose pass failed is left unanswered, so that it is taken again
when its lease is over.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

from durably.durations import check_duration
from durably.outcomes import Outcome
from durably.values import BUDGET, Delivery, now_utc

from durably_redis_sync._concurrency import Event, Nursery, Slots
from durably_redis_sync.interfaces import Durable
from durably_redis_sync.keeper import Keeper
from durably_redis_sync.one_pass import OnePass
from durably_redis_sync.resume import LEAVING, Body
from durably_redis_sync.streams import Sink, Stopping

_log = logging.getLogger("durably.worker")

CONTENDED = timedelta(seconds=1)
"""When a worker looks again at a workflow that another pass holds."""

LIMIT = 20
"""How many passes a worker runs at once."""

_CLEANUP = 0.5
"""How long the passes of a worker that leaves have for their own cleaning up, in seconds."""

_LOOK = 0.1
"""How often a worker with no slot free looks whether it was told to stop, in seconds."""


def check_limit(limit: int) -> int:
    """Return `limit`, or raise a `ValueError` if it is no number above 0."""
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise ValueError(f"limit must be 1 or more, not {limit!r}")
    return limit


def passes(
    durable: Durable[Any],
    body: Body[object],
    limit: int | Slots = LIMIT,
    *,
    lease: timedelta | None = None,
    budget: timedelta = BUDGET,
    contended: timedelta = CONTENDED,
    now: Callable[[], datetime] = now_utc,
    stop: Stopping | None = None,
    grace: timedelta | None = None,
) -> Sink[Delivery]:
    """A sink of deliveries: one pass each, at most `limit` at once, and none pulled without a free slot.

    `limit` is a number, or slots that somebody else counts. `lease` (default: the scheduler's) is what one sign of life is worth. When the stream ends, or `stop` is set,
    passes under way have `grace` to end (unset: as long as they take); then they are refused further steps, their
    claims are given back, and others may take their wakeups at once. Raises `ValueError` for a duration that is not
    positive or a limit below 1.
    """
    slots = limit if isinstance(limit, Slots) else Slots(check_limit(limit))
    worth = check_duration("a lease", durable.scheduler.lease if lease is None else lease)
    check_duration("a budget", budget)
    check_duration("contended", contended)
    patience = None if grace is None else check_duration("grace", grace).total_seconds()

    def sink(deliveries: Iterator[Delivery]) -> None:
        keeper = Keeper(durable, worth, budget)
        one = OnePass(durable, body, keeper, worth, budget, contended, now)
        failed = Event()

        def advance(delivery: Delivery) -> None:
            try:
                one.run(delivery)
            finally:
                slots.release()

        def slot() -> bool:
            while not slots.acquire(_LOOK):
                if failed.is_set() or (stop is not None and stop.is_set()):
                    return False
            return not failed.is_set()

        with Nursery(keeper.ended, failed) as keeping:
            keeping.start(keeper.keep)
            try:
                with Nursery(failed) as running:
                    if slot():
                        for delivery in deliveries:
                            running.start(advance, delivery)
                            if not slot():
                                break
                    if not running.settle(patience):
                        for held in keeper.close():
                            one.leave(held)
                        running.settle(_CLEANUP)
                        running.abandon()
            finally:
                keeper.ended.set()

    return sink


def advance(
    durable: Durable[Any],
    body: Body[object],
    delivery: Delivery,
    *,
    budget: timedelta = BUDGET,
    contended: timedelta = CONTENDED,
    now: Callable[[], datetime] = now_utc,
) -> Outcome[object] | None:
    """One pass for a delivery, kept alive while it runs; what it came to, after the delivery is answered for.

    `None` when there was nothing to do: another pass holds the workflow (it is looked at again after `contended`),
    or its wakeup was cancelled. Raises what the body raises, and `Fenced` if the workflow was lost meanwhile: then
    the delivery stays unanswered, and is taken again when its lease is over.
    """
    worth = check_duration("a lease", durable.scheduler.lease)
    check_duration("a budget", budget)
    check_duration("contended", contended)
    keeper = Keeper(durable, worth, budget)
    one = OnePass(durable, body, keeper, worth, budget, contended, now, here=False)
    outcomes: list[Outcome[object] | None] = []
    failures: list[BaseException] = []
    with Nursery(keeper.ended) as keeping:
        keeping.start(keeper.keep)
        try:
            outcomes.append(one.pass_for(delivery))
        except LEAVING:
            raise
        except BaseException as error:
            failures.append(error)
        finally:
            keeper.ended.set()
    if failures:
        raise failures[0]
    return outcomes[0]
