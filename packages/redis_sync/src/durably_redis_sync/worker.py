# Generated from packages/redis_async/src/durably_redis_async/worker.py by twin.py. Edit that file.
"""The worker: takes wakeups and runs a pass for each, until it is told to stop or fails itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

from durably.durations import check_duration, check_idle
from durably.values import BUDGET, LEASE, Delivery, now_utc

from durably_redis_sync._concurrency import Draining, Event, Nursery, Slots, process_ends, sleep
from durably_redis_sync.alarms import Alarm, says_when, wake_on_time
from durably_redis_sync.interfaces import Durable, Scheduler
from durably_redis_sync.passes import CONTENDED, LIMIT, check_limit, passes
from durably_redis_sync.resume import Body, each
from durably_redis_sync.streams import AnySet, Sink, Stopping, from_sink, ticks
from durably_redis_sync.sweeper import SWEEP_EVERY, can_sweep, sweep_now_and_then
from durably_redis_sync.together import asks_holding

TICK = timedelta(milliseconds=50)
"""How often a worker looks for sleepers whose deadline has come."""

BLOCKING = timedelta(seconds=1)
"""How long one wait for a wakeup takes at most: a worker told to stop notices that soon."""

GRACE = timedelta(seconds=30)
"""How long the passes of a worker that was told to stop have to end."""

_LOOK = 6.0
_LOOKS = 10
"""How often abandoned deliveries are looked for: this often per lease, and every so many seconds at the least."""


_PAUSE = 0.001
"""How long a worker that has a backlog before it and few slots free waits for more of them, so that one read fills
several, in seconds."""


def ready(
    scheduler: Scheduler,
    within: timedelta = BLOCKING,
    idle: timedelta = LEASE,
    *,
    stop: Stopping | None = None,
    room: Callable[[], int] | None = None,
) -> Iterator[Delivery]:
    """A stream of wakeups to act on: what was idle for `idle` first, then what is new.

    What is idle is looked for at once and then ten times per `idle`, every six seconds at the least, rather than before
    every wakeup. `room`: how many may be taken at once, asked each time (unset: one). It ends when `stop` is set, or
    when the process comes to its end while this runs beside its main thread.
    """
    check_duration("within", within)
    check_idle(idle)
    several = getattr(scheduler, "next_several", None) if room is not None else None
    for delivery in _pulled(scheduler, within, idle, stop, several, room):
        yield delivery


def _pulled(
    scheduler: Scheduler,
    within: timedelta,
    idle: timedelta,
    stop: Stopping | None,
    several: Any,
    room: Callable[[], int] | None,
    most: int = 1,
    rest: tuple[bool, ...] = (),
) -> Iterator[Delivery]:
    backlog = False
    pause = min(_LOOK, idle.total_seconds() / _LOOKS)
    look_at = time.monotonic()
    while not process_ends() and (stop is None or not stop.is_set()):
        delivery = None
        if time.monotonic() >= look_at:
            delivery = scheduler.reclaim(idle)
            if delivery is None:
                look_at = time.monotonic() + pause
        if delivery is None and several is not None and room is not None:
            if backlog and room() * 4 < most:
                sleep(_PAUSE)
            asked = max(1, room())
            found = several(within, asked, *rest)
            backlog = len(found) >= asked
            for one in found:
                yield one
            continue
        if delivery is None:
            delivery = scheduler.next_ready(within)
        if delivery is not None:
            yield delivery
    still_reading: Any = getattr(scheduler, "rest", None)
    if still_reading is not None:
        for one in still_reading():
            yield one


def waking(scheduler: Scheduler) -> Sink[datetime]:
    """A sink of moments: at each, every sleeper whose deadline has come is made ready."""

    def wake(now: datetime) -> None:
        scheduler.wake_due(now)

    return from_sink(wake)


def work(
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
    grace: timedelta = GRACE,
    sweep_every: timedelta | None = SWEEP_EVERY,
) -> None:
    """Run a worker until it is told to stop, or fails.

    `tick`: how late a sleeper may be woken whose own worker is gone; for a queue that cannot tell when its next sleeper
    is due, how often due ones are looked for. `within`: how long one wait for a wakeup takes at most. `budget`:
    how long a pass may take. `contended`: when to look again at a workflow that another pass holds. `limit`: how many
    passes at once. `stop`: an event that drains the worker when set: it pulls no more, its passes have `grace` to
    end, what is left then is given back for others to take at once. `now`: the clock; the store's server's, unless a
    test gives another. Without `stop`, and in the main thread, the first SIGTERM or SIGINT drains it, and a second one
    does what it would have done without us. `sweep_every`: how often the workers of a namespace `sweep`, one of them at a
    time (`None`: never; stores and queues that are not on Redis have nothing to sweep).

    Raises `ValueError` for what is out of range, and what the store or the queue raises when the loop itself fails; a
    workflow's failure is logged, and its wakeup taken again after the lease.
    """
    check_duration("tick", tick)
    check_duration("within", within)
    if sweep_every is not None:
        check_duration("sweep_every", sweep_every)
    told = Event() if stop is None else stop
    ended = Event()
    over = AnySet((told, ended))
    slots = Slots(check_limit(limit))
    run_all = passes(
        durable, body, slots, budget=budget, contended=contended, now=now, stop=over, grace=grace
    )
    scheduler: Any = durable.scheduler
    several = getattr(scheduler, "next_several", None)
    unsifted = (False,) if hasattr(scheduler, "marks_key") and asks_holding(durable) else ()
    alarm = Alarm() if now is now_utc and says_when(scheduler) else None

    def wake() -> None:
        if alarm is not None:
            wake_on_time(scheduler, alarm, tick, ended)
            return
        for _ in ticks(tick, stop=ended):
            scheduler.wake_due(None if now is now_utc else now())

    def pull() -> None:
        try:
            lease = scheduler.lease
            run_all(_pulled(scheduler, within, lease, over, several, lambda: slots.free + 1, limit, unsifted))
        finally:
            ended.set()
            if alarm is not None:
                alarm.rung.set()

    if alarm is not None:
        scheduler.alarms.add(alarm)
    try:
        with Draining(told, stop is None):
            scheduler.prepare()
            with Nursery(ended) as nursery:
                nursery.start(wake)
                nursery.start(pull)
                if sweep_every is not None and can_sweep(durable):
                    nursery.start(sweep_now_and_then, durable, sweep_every, ended)
    except BaseExceptionGroup as group:
        raise _first(group) from None
    finally:
        if alarm is not None:
            scheduler.alarms.remove(alarm)


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first failure inside nested groups, the others as its notes: a caller looks for a lost connection by name."""
    leaves = list(each(group))
    for other in leaves[1:]:
        leaves[0].add_note(f"beside it: {other!r}")
    return leaves[0]
