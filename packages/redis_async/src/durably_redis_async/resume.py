"""One pass: call the body from the top, and say what it came to."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any, TypeVar

from durably.outcomes import Outcome
from durably.signals import Fenced, InputNeeded, MessageNeeded, ScheduledWakeup, Suspended, Swallowed
from durably.values import Blocked, Completed, Pass, Sleeping, now_utc

from durably_redis_async._concurrency import CANCELLED, Returning, called, sleep
from durably_redis_async.extending import Extend, extending
from durably_redis_async.interfaces import Checkpointer, Durable
from durably_redis_async.run import Run
from durably_redis_async.together import read_pass

T = TypeVar("T")

Body = Returning[[Run], T]
"""A workflow: an ordinary function of a `Run`."""

LEAVING: tuple[type[BaseException], ...] = (*CANCELLED, KeyboardInterrupt, GeneratorExit)
"""What ends a pass from outside: it is no verdict on the workflow. (`SystemExit` in a body is its failure.)"""

_SETTLE = 30.0
"""How long a pass waits for writes that branches of its body still have under way, in seconds."""


async def resume(
    holder: Pass,
    checkpointer: Checkpointer[Any],
    body: Body[T],
    *,
    extend: Extend | None = None,
    now: Callable[[], datetime] = now_utc,
    durable: Durable[Any] | None = None,
) -> Outcome[T]:
    """Run one pass of `body` under the claim `holder`, and return what it came to.

    `durable`: the store with its queue, for a body that starts or messages other workflows. `now` is the clock; the store's server's, unless another is given. Raises `Fenced` if the claim was lost, over everything else; then what the body raised (out of an exception group:
    the one failure, or the failures without the suspensions); `Swallowed` if it caught a suspension and returned.
    """
    recorded, clock = await read_pass(checkpointer, holder.workflow)
    if clock is not None and now is now_utc:
        now = clock
    run = Run(holder, checkpointer, recorded, extend or extending(checkpointer), now, durable=durable)
    return await finish(run, body)


async def finish(run: Run, body: Body[T]) -> Outcome[T]:
    """Call `body` with `run`, as `resume` does."""
    try:
        value = await called(lambda: body(run), "a body")
    except LEAVING:
        run.end()
        raise
    except BaseException as error:
        await settle(run)
        return _verdict(run, error)
    await settle(run)
    if run.lost:
        raise Fenced(run.workflow)
    if run.reached:
        raise Swallowed(run.workflow, tuple(run.reached))
    return Completed(value)


async def settle(run: Run) -> None:
    """Let no new step begin, and wait for the writes under way: a deadline that is recorded gets its wakeup."""
    run.end()
    until = time.monotonic() + _SETTLE
    while run.writing and time.monotonic() < until:
        await sleep(0.001)


def each(error: BaseException) -> Iterator[BaseException]:
    """The errors inside nested groups, or the error itself."""
    if isinstance(error, BaseExceptionGroup):
        for one in error.exceptions:
            yield from each(one)
    else:
        yield error


def _verdict(run: Run, error: BaseException) -> Sleeping | Blocked:
    leaves = list(each(error))
    if run.lost or any(isinstance(one, Fenced) for one in leaves):
        run.lose()
        raise Fenced(run.workflow) from error
    failures = [one for one in leaves if not isinstance(one, Suspended)]
    if len(failures) == 1:
        raise failures[0]
    if failures:
        assert isinstance(error, BaseExceptionGroup)
        waits, rest = error.split(Suspended)
        raise error if waits is None or rest is None else rest
    raised = [one for one in leaves if isinstance(one, Suspended)]
    return _waits([*run.reached, *(one for one in raised if one not in run.reached)])


def _waits(reached: list[Suspended]) -> Sleeping | Blocked:
    sleeps = [one for one in reached if isinstance(one, ScheduledWakeup)]
    if sleeps:
        soonest = min(sleeps, key=lambda one: one.due)
        return Sleeping(soonest.key, soonest.due)
    return Blocked(
        waiting=tuple(dict.fromkeys(one.key for one in reached if isinstance(one, InputNeeded))),
        listening=tuple(dict.fromkeys(one.key for one in reached if isinstance(one, MessageNeeded))),
    )
