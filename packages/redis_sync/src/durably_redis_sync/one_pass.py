# Generated from packages/redis_async/src/durably_redis_async/one_pass.py by twin.py. Edit that file.
"""One pass for one delivery: claim, run, give back, answer last."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

from durably.outcomes import Outcome
from durably.signals import CheckpointGone, Fenced
from durably.values import CANCELLED, Delivery, Pass, Sleeping, now_utc

from durably_redis_sync._concurrency import shielded
from durably_redis_sync._gathering import kept
from durably_redis_sync.interfaces import Durable
from durably_redis_sync.keeper import Held, Keeper
from durably_redis_sync.resume import LEAVING, Body, finish, settle
from durably_redis_sync.run import Run
from durably_redis_sync.together import Opening, close_pass, gathers, open_pass

_AT_ONCE = datetime(1970, 1, 1, tzinfo=timezone.utc)
"""A deadline that has come, whatever the clocks say."""

_log = logging.getLogger("durably.worker")


class OnePass:
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
        here: bool = True,
    ) -> None:
        """`here`: what this runs in is the pass's own."""
        self.durable = durable
        self.body = body
        self.keeper = keeper
        self.lease = lease
        self.budget = budget
        self.contended = contended
        self.now = now
        self.here = here
        self.keep: Any = kept if gathers(durable) else shielded

    def run(self, delivery: Delivery) -> None:
        """Claim, run, give back, answer; whatever goes wrong with this workflow is logged and goes no further."""
        workflow = delivery.workflow
        try:
            self.pass_for(delivery)
        except LEAVING:
            raise
        except CheckpointGone:
            pass  # said where it was parked
        except Fenced:
            _log.info("workflow %r was taken over by another pass", workflow)
        except BaseException:
            _log.exception("a pass over workflow %r failed; it is taken again after its lease", workflow)

    def pass_for(self, delivery: Delivery) -> Outcome[object] | None:
        """One pass. Its outcome, or `None` when there was none; raises what went wrong with it."""
        workflow, since = delivery.workflow, time.monotonic()
        opened: list[Opening] = []

        def claim() -> None:
            opened.append(open_pass(self.durable, delivery, self.budget, self.lease))

        try:
            self.keep(claim)
        except LEAVING:
            for opening in opened:
                if opening.holder is not None:
                    self.keep(self._release, opening.holder)
            raise
        except CheckpointGone as error:
            _log.error("workflow %r is parked: %s", workflow, error)
            self.durable.scheduler.park(delivery, str(error))
            raise
        opening = opened[0]
        if opening.holder is None:
            now = self._clock(opening)
            self.durable.scheduler.wake_at(delivery, now() + self.contended)
        elif opening.failure is not None or not opening.stands:
            self._release(opening.holder, CANCELLED if opening.failure is None else None)
            if opening.failure is not None:
                raise opening.failure
            _log.info("the wakeup of workflow %r was cancelled before its pass began", delivery.workflow)
        else:
            return self._hold(opening.holder, delivery, opening, since)
        return None

    def leave(self, held: Held) -> None:
        """Give a pass up: refuse its steps, let the writes under way end, and let others take its wakeup at once."""
        held.leaving = True
        held.stop("the worker leaves")
        settle(held.run)
        self._give_back(held)

    def _clock(self, opening: Opening) -> Callable[[], datetime]:
        return opening.clock if opening.clock is not None and self.now is now_utc else self.now

    def _hold(
        self, holder: Pass, delivery: Delivery, opening: Opening, since: float
    ) -> Outcome[object] | None:
        outcomes: list[Outcome[object]] = []
        failures: list[BaseException] = []
        durable, clock = self.durable, self._clock(opening)
        run = Run(holder, durable.checkpointer, opening.recorded, self._extend, clock, durable=durable)
        held = self.keeper.hold(holder, delivery, run, self.budget, since)
        if held is None:
            self._close(holder, delivery, _AT_ONCE)
            return None
        run.extend = self._extending(held)
        over = False
        try:
            running = held.work.run_here if self.here else held.work.run
            running(_finish, run, self.body, outcomes, failures)
            over = bool(outcomes) and held.why is None
        finally:
            if not over:
                self.keep(self._give_back, held, failures[0] if failures else None)
        if over:
            self._answer(held, outcomes[0])
            return outcomes[0]
        if held.why is None and failures:
            raise failures[0]
        if held.why is not None:
            raise Fenced(holder.workflow)
        _log.warning(
            "the body of workflow %r cancelled itself; it is taken again after its lease", holder.workflow
        )
        return None

    def _give_back(self, held: Held, failure: BaseException | None = None) -> None:
        delivery = self.keeper.let_go(held)
        if delivery is None:
            return
        if held.leaving:
            self._close(held.holder, delivery, _AT_ONCE)
        else:
            self._release(held.holder, failure)

    def _answer(self, held: Held, outcome: Outcome[object]) -> None:
        wake_at = outcome.due if isinstance(outcome, Sleeping) else None

        def close() -> None:
            last = self.keeper.let_go(held)
            if last is not None:
                self._close(held.holder, last, wake_at, outcome, len(held.run.recorded))

        self.keep(close)

    def _extend(self, holder: Pass, within: timedelta) -> bool:
        return self.durable.checkpointer.extend(holder, within, self.lease)

    def _extending(self, held: Held) -> Callable[[Pass, timedelta], Any]:
        def extend(holder: Pass, within: timedelta) -> bool:
            ends = time.monotonic() + within.total_seconds()
            if ends > held.budget_ends:
                if not self._extend(holder, within):
                    return False
                held.budget_ends = max(held.budget_ends, ends)
            return True

        return extend

    def _close(
        self,
        holder: Pass,
        delivery: Delivery,
        wake_at: datetime | None,
        outcome: object = None,
        known: int | None = None,
    ) -> None:
        closing = close_pass(self.durable, holder, delivery, wake_at, outcome, known)
        if closing.not_released is not None:
            _not_released(holder, closing.not_released)
        if closing.behind:
            _log.warning(
                "the server has fewer records of workflow %r than it had accepted: it goes on from those%s",
                holder.workflow,
                "" if closing.not_asked is None else f", once a sweep finds it: {closing.not_asked!r}",
            )
        if closing.not_answered is not None:
            _log.warning(
                "the wakeup of workflow %r could not be answered for, it is taken again after its lease: %r",
                holder.workflow,
                closing.not_answered,
            )

    def _release(self, holder: Pass, outcome: object = None) -> None:
        try:
            self.durable.checkpointer.release(holder, outcome)
        except Exception as error:
            _not_released(holder, error)


def _not_released(holder: Pass, error: Exception) -> None:
    _log.warning(
        "the claim on workflow %r could not be given back, it lapses by itself: %r", holder.workflow, error
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
