"""Asking for more time, and not asking where the time is there already."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from durably.durations import check_duration
from durably.values import LEASE, Pass, now_utc

from durably_redis_async._concurrency import Guard, Returning
from durably_redis_async.interfaces import Checkpointer

Extend = Returning[[Pass, timedelta], bool]
"""Makes sure that a claim lasts for so long from now; `False` if the claim is lost."""


def extending(
    checkpointer: Checkpointer[Any],
    granted: timedelta | None = None,
    alive: timedelta | None = None,
    now: Callable[[], datetime] = now_utc,
) -> Extend:
    """An `Extend` over one claim, which asks the store only when the claim does not already last that long.

    `granted` is what the claim was taken for, counted from this call; unset, nothing is assumed. `alive` is the worth
    of the sign of life that an extension is (default `LEASE`). Build one per pass.
    """
    if granted is not None:
        check_duration("granted", granted)
    worth = LEASE if alive is None else check_duration("alive", alive)
    guard = Guard()
    lasts = [now() + granted] if granted is not None else []

    async def extend(holder: Pass, budget: timedelta) -> bool:
        check_duration("within", budget)
        until = now() + budget
        with guard:
            if lasts and until <= lasts[0]:
                return True
        if not await checkpointer.extend(holder, budget, worth):
            return False
        with guard:
            lasts[:] = [max([until, *lasts])]
        return True

    return extend
