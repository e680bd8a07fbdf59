# Generated from packages/redis_async/src/durably_redis_async/renewing.py by twin.py. Edit that file.
"""Signs of life for many passes at once: in one round trip where store and queue can say them as calls."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Protocol, runtime_checkable

from durably.values import Delivery, Pass

from durably_redis_sync.interfaces import Durable


@runtime_checkable
class SaysRenewal(Protocol):
    """A store that can say a renewal as a call, and send calls together."""

    def renewal(self, holder: Pass, alive: timedelta) -> Any:
        """`renew` as a call; its answer is a `bool`."""
        ...

    def together(self, calls: Sequence[Any]) -> list[object]:
        """The answers of calls, whoever said them; an error stands in the place of its answer."""
        ...


@runtime_checkable
class SaysExtension(Protocol):
    """A queue that can say an extension as a call."""

    def extension(self, delivery: Delivery, within: timedelta) -> Any:
        """`extend` as a call; its answer is the `Delivery` to use from now on."""
        ...


def renew_all(
    durable: Durable[Any], held: Sequence[tuple[Pass, Delivery]], lease: timedelta
) -> list[Delivery | Exception | None]:
    """Renew each claim with its delivery. Per pair: the delivery's name from now on, `None` if the claim is lost, or
    what went wrong."""
    store, queue = durable.checkpointer, durable.scheduler
    if not (isinstance(store, SaysRenewal) and isinstance(queue, SaysExtension)):
        return [_renew(durable, holder, delivery, lease) for holder, delivery in held]
    calls = [store.renewal(holder, lease) for holder, _ in held]
    calls += [queue.extension(delivery, lease) for _, delivery in held]
    try:
        answers: list[Any] = store.together(calls)
    except Exception as error:
        return [error for _ in held]
    renewed: list[Delivery | Exception | None] = []
    for claim, delivery in zip(answers[: len(held)], answers[len(held) :], strict=True):
        if isinstance(claim, Exception):
            renewed.append(claim)
        else:
            renewed.append(delivery if claim else None)
    return renewed


def _renew(
    durable: Durable[Any], holder: Pass, delivery: Delivery, lease: timedelta
) -> Delivery | Exception | None:
    try:
        if not durable.checkpointer.renew(holder, lease):
            return None
        return durable.scheduler.extend(delivery, lease)
    except Exception as error:
        return error
