"""Keeps every pass of a worker alive: renews claims and deliveries together, several times per lease.

One loop for all passes, one round trip for all that are due. A pass whose claim is lost, whose budget is spent, or
that nobody could renew in time is refused at its next step and asked to stop, before its lease ends.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from durably.values import Delivery, Pass

from durably_redis_async._concurrency import Event, Guard, Nursery, Slots, Work, wait_for
from durably_redis_async.interfaces import Durable
from durably_redis_async.run import Run
from durably_redis_async.together import renew_all

_log = logging.getLogger("durably.worker")

RENEWALS = 3
"""How often a claim and its delivery are renewed per lease."""

_LONGEST_TICK = 1.0
_SHORTEST_TICK = 0.001


@dataclass(eq=False)
class Held:
    """A pass under way: its claim, its delivery under the name it has now, and until when both last."""

    holder: Pass
    delivery: Delivery
    run: Run
    budget_ends: float
    renew_at: float
    lasts_until: float
    work: Work = field(default_factory=Work)
    why: str | None = None
    leaving: bool = False
    gone: bool = False
    renewing: bool = False

    def stop(self, why: str) -> None:
        """Refuse the pass's further steps, and ask it to stop."""
        if self.why is None:
            self.why = why
            self.run.lose()
            _log.warning(
                "a pass over workflow %r is given up: %s (it runs in %s)",
                self.holder.workflow,
                why,
                self.work.name,
            )
            self.work.cancel()


class Keeper:
    """The passes of one worker, and the loop that keeps them."""

    def __init__(self, durable: Durable[Any], lease: timedelta, budget: timedelta) -> None:
        self.durable = durable
        self.lease = lease
        self.every = lease.total_seconds() / RENEWALS
        self.tick = max(_SHORTEST_TICK, min(self.every / 2, budget.total_seconds() / 10, _LONGEST_TICK))
        self.ended = Event()
        self._held: set[Held] = set()
        self._closed = False
        self._guard = Guard()
        self._turn = Slots(1)
        self._renewing = False

    def hold(
        self, holder: Pass, delivery: Delivery, run: Run, budget: timedelta, since: float
    ) -> Held | None:
        """Keep a pass whose claim was asked for at `since` (monotonic seconds); `None` once the worker leaves."""
        held = Held(
            holder,
            delivery,
            run,
            budget_ends=since + budget.total_seconds(),
            renew_at=since + self.every,
            lasts_until=since + self.lease.total_seconds(),
        )
        with self._guard:
            if self._closed:
                return None
            self._held.add(held)
        return held

    async def let_go(self, held: Held) -> Delivery | None:
        """Keep a pass no longer. Its delivery under the name it has now, or `None` if it was let go before."""
        with self._guard:
            if held.gone:
                return None
            held.gone = True
            self._held.discard(held)
            renewing = held.renewing
        if renewing:
            await self._turn.acquire()
            self._turn.release()
        return held.delivery

    def close(self) -> list[Held]:
        """Keep no further passes; those that are kept."""
        with self._guard:
            self._closed = True
            return list(self._held)

    async def keep(self) -> None:
        """The loop, until `ended` is set."""
        async with Nursery(self.ended) as nursery:
            while not await wait_for(self.ended, self.tick):
                now = time.monotonic()
                with self._guard:
                    held_now = list(self._held)
                due = [held for held in held_now if self._is_due(held, now)]
                if due and not self._renewing:
                    self._renewing = True
                    nursery.start(self._renew, due)

    def _is_due(self, held: Held, now: float) -> bool:
        if now >= held.budget_ends:
            held.stop("its budget is spent")
        elif now >= held.lasts_until - self.every / 2:
            held.stop("its lease could not be renewed in time")
        return held.why is None and now >= held.renew_at

    async def _renew(self, due: Sequence[Held]) -> None:
        await self._turn.acquire()
        since = time.monotonic()
        try:
            with self._guard:
                batch = [held for held in due if not held.gone]
                for held in batch:
                    held.renewing = True
            answers = await renew_all(
                self.durable, [(held.holder, held.delivery) for held in batch], self.lease
            )
            for held, answer in zip(batch, answers, strict=True):
                self._note(held, answer, since)
        finally:
            with self._guard:
                for held in due:
                    held.renewing = False
            self._turn.release()
            self._renewing = False

    def _note(self, held: Held, answer: Delivery | Exception | None, since: float) -> None:
        if isinstance(answer, Delivery):
            held.delivery = answer
            held.renew_at = since + self.every
            held.lasts_until = since + self.lease.total_seconds()
        elif answer is None:
            held.stop("its claim is another's, or its budget is spent")
        else:
            held.renew_at = time.monotonic() + self.every / 4
            _log.warning("workflow %r could not be renewed, trying again: %r", held.holder.workflow, answer)
