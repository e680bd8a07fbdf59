"""One pass per delivery, side by side: claim, run, give back, answer last.

A workflow's failure never stops the worker. A wakeup whose pass failed is left unanswered, so that it is taken again
when its lease is over.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Callable
from datetime import datetime, timedelta
from typing import Any

from durably.durations import check_duration
from durably.outcomes import Outcome
from durably.signals import Fenced
from durably.values import BUDGET, Delivery, Pass, Sleeping, now_utc

from durably_redis_async._concurrency import Event, Nursery, Slots, shielded
from durably_redis_async.interfaces import Durable
from durably_redis_async.keeper import Held, Keeper
from durably_redis_async.resume import LEAVING, Body, finish, settle
from durably_redis_async.run import Run, extending
from durably_redis_async.streams import Sink, Stopping
from durably_redis_async.together import Opening, close_pass, open_pass

_log = logging.getLogger("durably.worker")

CONTENDED = timedelta(seconds=1)
"""When a worker looks again at a workflow that another pass holds."""

LIMIT = 20
"""How many passes a worker runs at once."""

_CLEANUP = 0.5
"""How long the passes of a worker that leaves have for their own cleaning up, in seconds."""

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

    async def sink(deliveries: AsyncIterator[Delivery]) -> None:
        slots = Slots(limit)
        keeper = Keeper(durable, worth, budget)
        one = _OnePass(durable, body, keeper, worth, budget, contended, now)
        failed = Event()

        async def advance(delivery: Delivery) -> None:
            try:
                await one.run(delivery)
            finally:
                slots.release()

        async def slot() -> bool:
            while not await slots.acquire(_LOOK):
                if failed.is_set() or (stop is not None and stop.is_set()):
                    return False
            return not failed.is_set()

        async with Nursery(keeper.ended, failed) as keeping:
            keeping.start(keeper.keep)
            try:
                async with Nursery(failed) as running:
                    if await slot():
                        async for delivery in deliveries:
                            running.start(advance, delivery)
                            if not await slot():
                                break
                    if not await running.settle(patience):
                        for held in keeper.close():
                            await one.leave(held)
                        await running.settle(_CLEANUP)
                        running.abandon()
            finally:
                keeper.ended.set()

    return sink


async def advance(
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
    one = _OnePass(durable, body, keeper, worth, budget, contended, now)
    outcomes: list[Outcome[object] | None] = []
    failures: list[BaseException] = []
    async with Nursery(keeper.ended) as keeping:
        keeping.start(keeper.keep)
        try:
            outcomes.append(await one.pass_for(delivery))
        except LEAVING:
            raise
        except BaseException as error:
            failures.append(error)
        finally:
            keeper.ended.set()
    if failures:
        raise failures[0]
    return outcomes[0]


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
            await self.pass_for(delivery)
        except LEAVING:
            raise
        except Fenced:
            _log.info("workflow %r was taken over by another pass", workflow)
        except BaseException:
            _log.exception("a pass over workflow %r failed; it is taken again after its lease", workflow)

    async def pass_for(self, delivery: Delivery) -> Outcome[object] | None:
        """One pass. Its outcome, or `None` when there was none; raises what went wrong with it."""
        since = time.monotonic()
        opened: list[Opening] = []

        async def claim() -> None:
            opened.append(await open_pass(self.durable, delivery, self.budget, self.lease))

        try:
            await shielded(claim)
        except LEAVING:
            for opening in opened:
                if opening.holder is not None:
                    await shielded(self._release, opening.holder)
            raise
        opening = opened[0]
        if opening.holder is None:
            now = self._clock(opening)
            await self.durable.scheduler.wake_at(delivery, now() + self.contended)
        elif opening.failure is not None or not opening.stands:
            await self._release(opening.holder)
            if opening.failure is not None:
                raise opening.failure
            _log.info("the wakeup of workflow %r was cancelled before its pass began", delivery.workflow)
        else:
            return await self._hold(opening.holder, delivery, opening, since)
        return None

    async def leave(self, held: Held) -> None:
        """Give a pass up: refuse its steps, let the writes under way end, and let others take its wakeup at once."""
        held.leaving = True
        held.stop("the worker leaves")
        await settle(held.run)
        await self._give_back(held)

    def _clock(self, opening: Opening) -> Callable[[], datetime]:
        return opening.clock if opening.clock is not None and self.now is now_utc else self.now

    async def _hold(
        self, holder: Pass, delivery: Delivery, opening: Opening, since: float
    ) -> Outcome[object] | None:
        outcomes: list[Outcome[object]] = []
        failures: list[BaseException] = []
        run = Run(holder, self.durable.checkpointer, opening.recorded, self._extend, self._clock(opening))
        held = self.keeper.hold(holder, delivery, run, self.budget, since)
        if held is None:
            await self._close(holder, delivery, run.now())
            return None
        run.extend = self._extending(held)
        over = False
        try:
            await held.work.run(_finish, run, self.body, outcomes, failures)
            over = bool(outcomes) and held.why is None
        finally:
            if not over:
                await shielded(self._give_back, held)
        if over:
            await self._answer(held, outcomes[0])
            return outcomes[0]
        if held.why is None and failures:
            raise failures[0]
        if held.why is not None:
            raise Fenced(holder.workflow)
        _log.warning(
            "the body of workflow %r cancelled itself; it is taken again after its lease", holder.workflow
        )
        return None

    async def _give_back(self, held: Held) -> None:
        delivery = await self.keeper.let_go(held)
        if delivery is None:
            return
        if held.leaving:
            await self._close(held.holder, delivery, held.run.now())
        else:
            await self._release(held.holder)

    async def _answer(self, held: Held, outcome: Outcome[object]) -> None:
        wake_at = outcome.due if isinstance(outcome, Sleeping) else None

        async def close() -> None:
            last = await self.keeper.let_go(held)
            if last is not None:
                await self._close(held.holder, last, wake_at)

        await shielded(close)

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

    async def _close(self, holder: Pass, delivery: Delivery, wake_at: datetime | None) -> None:
        released, answered = await close_pass(self.durable, holder, delivery, wake_at)
        if released is not None:
            _log.warning(
                "the claim on workflow %r could not be given back, it lapses by itself: %r",
                holder.workflow,
                released,
            )
        if answered is not None:
            _log.warning(
                "the wakeup of workflow %r could not be answered for, it is taken again after its lease: %r",
                holder.workflow,
                answered,
            )

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
