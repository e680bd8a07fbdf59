# Generated from packages/redis_async/src/durably_redis_async/streams.py by twin.py. Edit that file.
"""Streams of events and what consumes them: what makes a thing happen is apart from what happens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol, TypeVar

from durably.durations import check_duration
from durably.values import now_utc

from durably_redis_sync._concurrency import Event, Returning, wait_for

In = TypeVar("In")

Sink = Returning[[Iterator[In]], None]
"""Consumes a stream of events to its end."""


class Stopping(Protocol):
    """Says whether it is time to stop: an event, for example."""

    def is_set(self) -> bool:
        """Whether it is."""
        ...


@dataclass(frozen=True)
class AnySet:
    """Set as soon as one of several is."""

    of: tuple[Stopping, ...]

    def is_set(self) -> bool:
        """Whether one is."""
        return any(one.is_set() for one in self.of)


def from_sink(step: Returning[[In], None]) -> Sink[In]:
    """A sink that calls `step` once per event, one after the other."""

    def sink(events: Iterator[In]) -> None:
        for event in events:
            step(event)

    return sink


def ticks(
    every: timedelta, *, now: Callable[[], datetime] = now_utc, stop: Event | None = None
) -> Iterator[datetime]:
    """A stream of moments: one at once, then one every `every`, until `stop` is set."""
    check_duration("every", every)
    ended = Event() if stop is None else stop
    while not ended.is_set():
        yield now()
        wait_for(ended, every.total_seconds())
