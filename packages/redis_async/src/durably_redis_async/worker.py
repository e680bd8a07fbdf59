"""The worker: takes wakeups, runs a pass for each, answers for them last.

A workflow's failure never stops the loop; the loop's own failure does. A wakeup whose pass failed is left
unanswered, so that it is taken again when its lease is over.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Callable
from datetime import datetime, timedelta
from typing import Any

from durably.durations import check_duration, check_idle
from durably.outcomes import Outcome
from durably.signals import Fenced
from durably.values import BUDGET, LEASE, Delivery, Pass, Sleeping, now_utc

from durably_redis_async._concurrency import Event, Nursery, Slots, shielded
from durably_redis_async.interfaces import Durable, Scheduler
from durably_redis_async.keeper import Held, Keeper
from durably_redis_async.resume import LEAVING, Body, finish
from durably_redis_async.run import Run, extending
from durably_redis_async.streams import Sink, from_sink, ticks

_log = logging.getLogger("durably.worker")

TICK = timedelta(milliseconds=50)
"""How often a worker looks for sleepers whose deadline has come."""

BLOCKING = timedelta(seconds=1)
"""How long one wait for a wakeup takes at most: a worker told to stop notices that soon."""

CONTENDED = timedelta(seconds=1)
"""When a worker looks again at a workflow that another pass holds."""

LIMIT = 20
"""How many passes a worker runs at once."""


async def ready(
    scheduler: Scheduler, within: timedelta = BLOCKING, idle: timedelta = LEASE, *, stop: Event | None = None
) -> AsyncIterator[Delivery]:
    """A stream of wakeups to act on: what was idle for `idle` first, then what is new, until `stop` is set."""
    check_duration("within", within)
    check_idle(idle)
    while stop is None or not stop.is_set():
        delivery = await scheduler.reclaim(idle)
        if delivery is None:
            delivery = await scheduler.next_ready(within)
        if delivery is not None:
            yield delivery


def waking(scheduler: Scheduler) -> Sink[datetime]:
    """A sink of moments: at each, every sleeper whose deadline has come is made ready."""

    async def wake(now: datetime) -> None:
        await scheduler.wake_due(now)

    return from_sink(wake)


def passes(
    durable: Durable[Any],
    body: Body[object],
    limit: int = LIMIT,
    *,
    lease: timedelta | None = None,
    budget: timedelta = BUDGET,
    contended: timedelta = CONTENDED,
    now: Callable[[], datetime] = now_utc,
) -> Sink[Delivery]:
    """A sink of deliveries: one pass each, at most `limit` at once, and none pulled without a free slot.

    `lease` (default: the scheduler's) is what one sign of life is worth. Raises `ValueError` for a duration that is
    not positive or a limit below 1.
    """
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise ValueError(f"limit must be 1 or more, not {limit!r}")
    worth = check_duration("a lease", durable.scheduler.lease if lease is None else lease)
    check_duration("a budget", budget)
    check_duration("contended", contended)

    async def sink(deliveries: AsyncIterator[Delivery]) -> None:
        slots = Slots(limit)
        keeper = Keeper(durable, worth, budget)
        one = _OnePass(durable, body, keeper, worth, budget, contended, now)

        async def advance(delivery: Delivery) -> None:
            try:
                await one.run(delivery)
            finally:
                slots.release()

        async with Nursery() as keeping:
            keeping.start(keeper.keep)
            try:
                async with Nursery() as running:
                    await slots.acquire()
                    async for delivery in deliveries:
                        running.start(advance, delivery)
                        await slots.acquire()
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

    async def run(self, delivery: Delivery) -> None:
        """Claim, run, give back, answer; whatever goes wrong with this workflow is logged and goes no further."""
        workflow = delivery.workflow
        try:
            since = time.monotonic()
            holder = await self.durable.checkpointer.claim(workflow, self.budget, self.lease)
            if holder is None:
                await self.durable.scheduler.wake_at(delivery, self.now() + self.contended)
                return
            await self._hold(holder, delivery, since)
        except LEAVING:
            raise
        except Fenced:
            _log.info("workflow %r was taken over by another pass", workflow)
        except BaseException:
            _log.exception("a pass over workflow %r failed; it is taken again after its lease", workflow)

    async def _hold(self, holder: Pass, delivery: Delivery, since: float) -> None:
        outcomes: list[Outcome[object]] = []
        failures: list[BaseException] = []
        held: Held | None = None
        try:
            recorded = await self.durable.checkpointer.load(holder.workflow)
            run = Run(holder, self.durable.checkpointer, recorded, self._extend, self.now)
            held = self.keeper.hold(holder, delivery, run, self.budget, since)
            run.extend = self._extending(held)
            async with Nursery() as nursery:
                held.work = nursery.start(_finish, run, self.body, outcomes, failures)
            delivery = await self.keeper.let_go(held)
        finally:
            if held is not None and not held.gone:
                await shielded(self.keeper.let_go, held)
            await shielded(self._release, holder)
        if held.why is not None:
            _log.warning("a pass over workflow %r was stopped: %s", holder.workflow, held.why)
            return
        if failures:
            raise failures[0]
        if not outcomes:
            _log.warning(
                "the body of workflow %r cancelled itself; it is taken again after its lease", holder.workflow
            )
            return
        await self._answer(delivery, outcomes[0])

    async def _extend(self, holder: Pass, within: timedelta) -> bool:
        return await self.durable.checkpointer.extend(holder, within, self.lease)

    def _extending(self, held: Held) -> Callable[[Pass, timedelta], Any]:
        asks = extending(self.durable.checkpointer, self.budget, self.lease, self.now)

        async def extend(holder: Pass, within: timedelta) -> bool:
            asked = time.monotonic()
            if not await asks(holder, within):
                return False
            held.budget_ends = max(held.budget_ends, asked + within.total_seconds())
            return True

        return extend

    async def _answer(self, delivery: Delivery, outcome: Outcome[object]) -> None:
        if isinstance(outcome, Sleeping):
            await self.durable.scheduler.wake_at(delivery, outcome.due)
        else:
            await self.durable.scheduler.done(delivery)

    async def _release(self, holder: Pass) -> None:
        try:
            await self.durable.checkpointer.release(holder)
        except Exception as error:
            _log.warning(
                "the claim on workflow %r could not be given back, it lapses by itself: %r",
                holder.workflow,
                error,
            )


async def _finish(
    run: Run, body: Body[object], outcomes: list[Outcome[object]], failures: list[BaseException]
) -> None:
    try:
        outcomes.append(await finish(run, body))
    except LEAVING:
        raise
    except BaseException as error:
        failures.append(error)


async def work(
    durable: Durable[Any],
    body: Body[object],
    *,
    tick: timedelta = TICK,
    within: timedelta = BLOCKING,
    budget: timedelta = BUDGET,
    contended: timedelta = CONTENDED,
    limit: int = LIMIT,
    now: Callable[[], datetime] = now_utc,
    stop: Event | None = None,
) -> None:
    """Run a worker until `stop` is set (then it pulls no more, and returns when its passes have ended) or a failure.

    `tick`: how often due sleepers are looked for. `within`: how long one wait for a wakeup takes at most. `budget`:
    how long a pass may take. `contended`: when to look again at a workflow that another pass holds. `limit`: how many
    passes at once. Raises `ValueError` for what is out of range, and what the store or the queue raises when the loop
    itself fails; a workflow's failure is logged, and its wakeup taken again after the lease.
    """
    check_duration("tick", tick)
    check_duration("within", within)
    run_all = passes(durable, body, limit, budget=budget, contended=contended, now=now)
    scheduler = durable.scheduler
    await scheduler.prepare()
    ended = Event()

    async def pull() -> None:
        try:
            await run_all(ready(scheduler, within, scheduler.lease, stop=stop))
        finally:
            ended.set()

    try:
        async with Nursery() as nursery:
            nursery.start(waking(scheduler), ticks(tick, now=now, stop=ended))
            nursery.start(pull)
    except BaseExceptionGroup as group:
        raise _only(group) from None


def _only(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The one failure inside nested groups, or the group: a caller looks for a lost connection by its own name."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
