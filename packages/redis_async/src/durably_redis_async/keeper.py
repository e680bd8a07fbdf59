"""Keeps every pass of a worker alive: renews claim and delivery together, several times per lease.

One loop for all passes. A pass whose claim is lost, whose budget is spent, or that nobody could renew in time is
refused at its next step and asked to stop, before its lease ends.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from durably.values import Delivery, Pass

from durably_redis_async._concurrency import Event, Guard, Nursery, Slots, Work, wait_for
from durably_redis_async.interfaces import Durable
from durably_redis_async.run import Run

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
    work: Work | None = None
    why: str | None = None
    gone: bool = False
    turn: Slots = field(default_factory=lambda: Slots(1))

    def stop(self, why: str) -> None:
        """Refuse the pass's further steps, and ask it to stop."""
        if self.why is None:
            self.why = why
            self.run.lose()
        if self.work is not None:
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
        self._guard = Guard()

    def hold(self, holder: Pass, delivery: Delivery, run: Run, budget: timedelta, since: float) -> Held:
        """Keep a pass whose claim was asked for at `since` (monotonic seconds)."""
        held = Held(
            holder,
            delivery,
            run,
            budget_ends=since + budget.total_seconds(),
            renew_at=since + self.every,
            lasts_until=since + self.lease.total_seconds(),
        )
        with self._guard:
            self._held.add(held)
        return held

    async def let_go(self, held: Held) -> Delivery:
        """Keep a pass no longer, and return its delivery under the name it has now."""
        with self._guard:
            held.gone = True
            self._held.discard(held)
        await held.turn.acquire()
        held.turn.release()
        return held.delivery

    async def keep(self) -> None:
        """The loop, until `ended` is set."""
        async with Nursery() as nursery:
            while not await wait_for(self.ended, self.tick):
                now = time.monotonic()
                with self._guard:
                    held_now = list(self._held)
                for held in held_now:
                    self._look_at(held, now, nursery)

    def _look_at(self, held: Held, now: float, nursery: Nursery) -> None:
        if now >= held.budget_ends:
            held.stop("its budget is spent")
        elif now >= held.lasts_until - self.every / 2:
            held.stop("its lease could not be renewed in time")
        elif now >= held.renew_at and held.why is None:
            held.renew_at = now + self.every
            nursery.start(self._renew, held)

    async def _renew(self, held: Held) -> None:
        if not await held.turn.acquire(self.every):
            return
        try:
            since = time.monotonic()
            if held.gone:
                return
            if not await self.durable.checkpointer.renew(held.holder, self.lease):
                held.stop("its claim is another's, or its budget is spent")
                return
            held.delivery = await self.durable.scheduler.extend(held.delivery, self.lease)
            held.lasts_until = since + self.lease.total_seconds()
        except Exception as error:
            held.renew_at = time.monotonic() + self.every / 4
            _log.warning("workflow %r could not be renewed, trying again: %r", held.holder.workflow, error)
        finally:
            held.turn.release()
