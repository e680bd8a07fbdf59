# Generated from packages/redis_async/src/durably_redis_async/passes.py by twin.py. Edit that file.
"""One pass per delivery, side by side: claim, run, give back, answer last.

A workflow's failure never stops the worker. A wakeup whose pass failed is left unanswered, so that it is taken again
when its lease is over.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

from durably.durations import check_duration
from durably.outcomes import Outcome
from durably.signals import Fenced
from durably.values import BUDGET, Delivery, Pass, Sleeping, now_utc

from durably_redis_sync._concurrency import Event, Nursery, Slots, shielded
from durably_redis_sync.interfaces import Durable
from durably_redis_sync.keeper import Held, Keeper
from durably_redis_sync.resume import LEAVING, Body, finish
from durably_redis_sync.run import Run, extending
from durably_redis_sync.streams import Sink, Stopping

_log = logging.getLogger("durably.worker")

CONTENDED = timedelta(seconds=1)
"""When a worker looks again at a workflow that another pass holds."""

LIMIT = 20
"""How many passes a worker runs at once."""

_LOOK = 0.1
"""How often a worker with no slot free looks whether it was told to stop, in seconds."""


def passes(
    durable: Durable[Any],
    body: Body[object],
    limit: int = LIMIT,
    *,
    lease: timedelta | None = None,
    budget: timedelta = BUDGET,
    contended: timedelta = CONTENDED,
    now: Callable[[], datetime] = now_utc,
    stop: Stopping | None = None,
    grace: timedelta | None = None,
) -> Sink[Delivery]:
    """A sink of deliveries: one pass each, at most `limit` at once, and none pulled without a free slot.

    `lease` (default: the scheduler's) is what one sign of life is worth. When the stream ends, or `stop` is set,
    passes under way have `grace` to end (unset: as long as they take); then they are refused further steps, their
    claims are given back, and others may take their wakeups at once. Raises `ValueError` for a duration that is not
    positive or a limit below 1.
    """
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise ValueError(f"limit must be 1 or more, not {limit!r}")
    worth = check_duration("a lease", durable.scheduler.lease if lease is None else lease)
    check_duration("a budget", budget)
    check_duration("contended", contended)
    patience = None if grace is None else check_duration("grace", grace).total_seconds()

    def sink(deliveries: Iterator[Delivery]) -> None:
        slots = Slots(limit)
        keeper = Keeper(durable, worth, budget)
        one = _OnePass(durable, body, keeper, worth, budget, contended, now)
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
                        running.abandon()
            finally:
                keeper.ended.set()

    return sink


class _OnePass:
    """What happens to one delivery."""

    def __init__(
        self,
        durable: Durable[Any],
        body: Body[object],
        keeper: Keeper,
        lease: timedelta,
        budget: timedelta,
        contended: timedelta,
        now: Callable[[], datetime],
    ) -> None:
        self.durable = durable
        self.body = body
        self.keeper = keeper
        self.lease = lease
        self.budget = budget
        self.contended = contended
        self.now = now

    def run(self, delivery: Delivery) -> None:
        """Claim, run, give back, answer; whatever goes wrong with this workflow is logged and goes no further."""
        workflow = delivery.workflow
        try:
            since = time.monotonic()
            holder = self.durable.checkpointer.claim(workflow, self.budget, self.lease)
            if holder is None:
                self.durable.scheduler.wake_at(delivery, self.now() + self.contended)
                return
            self._hold(holder, delivery, since)
        except LEAVING:
            raise
        except Fenced:
            _log.info("workflow %r was taken over by another pass", workflow)
        except BaseException:
            _log.exception("a pass over workflow %r failed; it is taken again after its lease", workflow)

    def leave(self, held: Held) -> None:
        """Give a pass up: refuse its steps, give its claim back, and let others take its wakeup at once."""
        held.stop("the worker leaves")
        delivery = self.keeper.let_go(held)
        if delivery is not None:
            self._release(held.holder)
            self._hand_on(delivery)

    def _hold(self, holder: Pass, delivery: Delivery, since: float) -> None:
        outcomes: list[Outcome[object]] = []
        failures: list[BaseException] = []
        held: Held | None = None
        last: Delivery | None = None
        try:
            recorded = self.durable.checkpointer.load(holder.workflow)
            run = Run(holder, self.durable.checkpointer, recorded, self._extend, self.now)
            held = self.keeper.hold(holder, delivery, run, self.budget, since)
            if held is not None:
                run.extend = self._extending(held)
                held.work.run(_finish, run, self.body, outcomes, failures)
        finally:
            last = delivery if held is None else shielded(self.keeper.let_go, held)
            if last is not None:
                shielded(self._release, holder)
        if held is None:
            self._hand_on(delivery)
            return
        if last is None or held.why is not None:
            return
        if failures:
            raise failures[0]
        if not outcomes:
            _log.warning(
                "the body of workflow %r cancelled itself; it is taken again after its lease", holder.workflow
            )
            return
        self._answer(last, outcomes[0])

    def _extend(self, holder: Pass, within: timedelta) -> bool:
        return self.durable.checkpointer.extend(holder, within, self.lease)

    def _extending(self, held: Held) -> Callable[[Pass, timedelta], Any]:
        asks = extending(self.durable.checkpointer, self.budget, self.lease, self.now)

        def extend(holder: Pass, within: timedelta) -> bool:
            asked = time.monotonic()
            if not asks(holder, within):
                return False
            held.budget_ends = max(held.budget_ends, asked + within.total_seconds())
            return True

        return extend

    def _answer(self, delivery: Delivery, outcome: Outcome[object]) -> None:
        if isinstance(outcome, Sleeping):
            self.durable.scheduler.wake_at(delivery, outcome.due)
        else:
            self.durable.scheduler.done(delivery)

    def _hand_on(self, delivery: Delivery) -> None:
        try:
            self.durable.scheduler.wake_at(delivery, self.now())
        except Exception as error:
            _log.warning(
                "the wakeup of workflow %r could not be handed on, others take it when its lease is over: %r",
                delivery.workflow,
                error,
            )

    def _release(self, holder: Pass) -> None:
        try:
            self.durable.checkpointer.release(holder)
        except Exception as error:
            _log.warning(
                "the claim on workflow %r could not be given back, it lapses by itself: %r",
                holder.workflow,
                error,
            )


def _finish(
    run: Run, body: Body[object], outcomes: list[Outcome[object]], failures: list[BaseException]
) -> None:
    try:
        outcomes.append(finish(run, body))
    except LEAVING:
        raise
    except BaseException as error:
        failures.append(error)
