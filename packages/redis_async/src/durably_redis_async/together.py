"""What a worker says to store and queue at once: the opening of a pass, its end, signs of life for many.

One round trip each where both can say their part as a call; one call after the other where they cannot.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol

from durably.values import Delivery, Pass

from durably_redis_async.interfaces import Checkpointer, Durable


class SaysCalls(Protocol):
    """A store that can say what it does as calls, and send calls together, whoever said them."""

    def claiming(self, workflow: str, budget: timedelta, alive: timedelta, *, slept: bool = False) -> Any:
        """`claim` as a call; its answer is a `Pass` or `None`."""
        ...

    def refusal(self, error: Exception, workflow: str) -> BaseException:
        """What an error in the place of an answer stands for."""
        ...

    def reading(self, workflow: str) -> Any:
        """`load` as a call."""
        ...

    def telling(self, workflow: str) -> Any:
        """The time of the server that a workflow's records are on, as a call; its answer is an aware `datetime`."""
        ...

    def renewal(self, holder: Pass, alive: timedelta) -> Any:
        """`renew` as a call; its answer is a `bool`."""
        ...

    def releasing(self, holder: Pass, outcome: object = None, known: int | None = None) -> Any:
        """`release` as a call; its answer is whether the store has the `known` records that the pass knows of."""
        ...

    async def together(self, calls: Sequence[Any]) -> list[object]:
        """The answers of calls, in one round trip; an error stands in the place of its answer."""
        ...


class SaysAnswers(Protocol):
    """A queue that can say what it does with a delivery as calls."""

    def holding(self, delivery: Delivery) -> Any:
        """Whether the delivery still stands, as a call; its answer is a `bool`."""
        ...

    def telling(self, delivery: Delivery) -> Any:
        """The clock of the queue that `delivery` came from, as a call; its answer is an aware `datetime`."""
        ...

    def extension(self, delivery: Delivery, within: timedelta) -> Any:
        """`extend` as a call; its answer is the `Delivery` to use from now on."""
        ...

    def suspending(self, delivery: Delivery, when: datetime) -> Any:
        """`wake_at` as a call; its answer is whether the delivery was held."""
        ...

    def answering(self, delivery: Delivery) -> Any:
        """`done` as a call; its answer is whether the delivery was held."""
        ...

    def asking_again(self, workflow: str, since: int) -> Any:
        """`make_ready` as a call, for a workflow that was not cancelled at `since` (ms) or later."""
        ...


_known: dict[tuple[object, object], bool] = {}


def _says(one: object, protocol: Any) -> bool:
    """Whether `one` has what `protocol` names; asked once per class."""
    key = (type(one), protocol)
    known = _known.get(key)
    if known is None:
        names = [name for name in vars(protocol) if not name.startswith("_")]
        known = _known[key] = all(hasattr(one, name) for name in names)
    return known


@dataclass(slots=True)
class ServerTime:
    """The server's clock, told at `at`, when this process's monotonic clock said `asked`. Never behind the server's."""

    at: datetime
    asked: float

    def __call__(self) -> datetime:
        """What time it is."""
        return self.at + timedelta(seconds=time.monotonic() - self.asked)


@dataclass(slots=True)
class Opening:
    """What a pass begins with. `holder` is `None` while another holds the workflow."""

    holder: Pass | None
    recorded: dict[str, object]
    stands: bool
    clock: Callable[[], datetime] | None
    failure: Exception | None = None


@dataclass(slots=True)
class Closing:
    """How a pass ended: what went wrong with the claim's release, and with the delivery's answer.

    `behind`: the store has less than the pass knows of; `not_asked`: what went wrong with the wakeup for that.
    """

    not_released: Exception | None
    not_answered: Exception | None
    behind: bool = False
    not_asked: Exception | None = None


def asks_holding(durable: Durable[Any]) -> bool:
    """Whether `open_pass` asks the queue whether a delivery still stands, so that what hands it on need not."""
    return _says(durable.checkpointer, SaysCalls) and _says(durable.scheduler, SaysAnswers)


def gathers(durable: Durable[Any]) -> bool:
    """Whether opening and closing a pass waits for nothing but calls that gather."""
    both = (durable.checkpointer, durable.scheduler)
    return asks_holding(durable) and all(getattr(one, "gathers", False) for one in both)


async def open_pass(
    durable: Durable[Any], delivery: Delivery, budget: timedelta, lease: timedelta
) -> Opening:
    """Claim the workflow, read its records, look whether the delivery still stands and what time it is.

    An error after the claim stands in `failure`, so that the claim can be given back. Raises what `claim` raises.
    """
    store: Any = durable.checkpointer
    queue: Any = durable.scheduler
    workflow = delivery.workflow
    if not asks_holding(durable):
        holder = await store.claim(workflow, budget, lease, **({"slept": True} if delivery.slept else {}))
        if holder is None:
            return Opening(None, {}, True, None)
        try:
            return Opening(holder, await store.load(workflow), True, None)
        except Exception as error:
            return Opening(holder, {}, True, None, error)
    asked = time.monotonic()
    calls = [
        store.claiming(workflow, budget, lease, slept=delivery.slept),
        store.reading(workflow),
        queue.holding(delivery),
        queue.telling(delivery),
    ]
    answers: list[Any] = await store.together(calls)
    if isinstance(answers[0], Exception):
        raise store.refusal(answers[0], workflow)
    failures = [one for one in answers if isinstance(one, Exception)]
    if failures:
        return Opening(answers[0], {}, True, None, failures[0])
    return Opening(answers[0], answers[1], answers[2], ServerTime(answers[3], asked))


async def read_pass(
    store: Checkpointer[Any], workflow: str
) -> tuple[dict[str, object], Callable[[], datetime] | None]:
    """A workflow's records, and the server's clock where the store can tell it."""
    if not _says(store, SaysCalls):
        return await store.load(workflow), None
    says: Any = store
    asked = time.monotonic()
    recorded, at = await says.together([says.reading(workflow), says.telling(workflow)])
    for answer in (recorded, at):
        if isinstance(answer, Exception):
            raise answer
    assert isinstance(recorded, dict) and isinstance(at, datetime)
    return recorded, ServerTime(at, asked)


async def close_pass(
    durable: Durable[Any],
    holder: Pass,
    delivery: Delivery,
    wake_at: datetime | None,
    outcome: object = None,
    known: int | None = None,
) -> Closing:
    """Give the claim back, then answer for the delivery: with a wakeup, or for good.

    `known`: how many records the pass knows of. Where the store has fewer, another pass is asked for: one that took over
    from another server may not have received what the pass was told is recorded.
    """
    store: Any = durable.checkpointer
    queue: Any = durable.scheduler
    if _says(store, SaysCalls) and _says(queue, SaysAnswers):
        answer = queue.answering(delivery) if wake_at is None else queue.suspending(delivery, wake_at)
        try:
            released, answered = await store.together([store.releasing(holder, outcome, known), answer])
        except Exception as error:
            return Closing(None, error)
        closing = Closing(_failure(released), _failure(answered), released is False)
        if closing.behind and answered is True:
            try:
                (asked,) = await store.together([queue.asking_again(holder.workflow, holder.token)])
            except Exception as error:
                asked = error
            closing.not_asked = _failure(asked)
        return closing
    failures: list[Exception | None] = []
    for number in range(2):
        try:
            if number == 0:
                await store.release(holder, outcome)
            elif wake_at is None:
                await queue.done(delivery)
            else:
                await queue.wake_at(delivery, wake_at)
            failures.append(None)
        except Exception as error:
            failures.append(error)
    return Closing(failures[0], failures[1])


def _failure(answer: object) -> Exception | None:
    return answer if isinstance(answer, Exception) else None


async def renew_all(
    durable: Durable[Any], held: Sequence[tuple[Pass, Delivery]], lease: timedelta
) -> list[Delivery | Exception | None]:
    """Renew each claim with its delivery. Per pair: the delivery's name from now on, `None` if the claim is lost, or
    what went wrong."""
    store: Any = durable.checkpointer
    queue: Any = durable.scheduler
    if not (_says(store, SaysCalls) and _says(queue, SaysAnswers)):
        return [await _renew(durable, holder, delivery, lease) for holder, delivery in held]
    calls = [store.renewal(holder, lease) for holder, _ in held]
    calls += [queue.extension(delivery, lease) for _, delivery in held]
    try:
        answers: list[Any] = await store.together(calls)
    except Exception as error:
        return [error for _ in held]
    renewed: list[Delivery | Exception | None] = []
    for claim, delivery in zip(answers[: len(held)], answers[len(held) :], strict=True):
        if isinstance(claim, Exception):
            renewed.append(claim)
        else:
            renewed.append(delivery if claim else None)
    return renewed


async def _renew(
    durable: Durable[Any], holder: Pass, delivery: Delivery, lease: timedelta
) -> Delivery | Exception | None:
    try:
        if not await durable.checkpointer.renew(holder, lease):
            return None
        return await durable.scheduler.extend(delivery, lease)
    except Exception as error:
        return error
