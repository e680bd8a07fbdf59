# Generated from tests/redis_async/test_durable.py by twin.py. Edit that file.
"""A store and a queue side by side: what is written first, and what a failure between the two leaves."""

from __future__ import annotations

from typing import Any

import pytest
from durably_redis_sync import MemoryCheckpointer, MemoryScheduler, SplitDurable
from support import ms


class Watched:
    """Notes each call in `log`, and fails at the call named `fails`."""

    def __init__(self, of: Any, log: list[str], fails: str | None = None) -> None:
        self.of = of
        self.log = log
        self.fails = fails

    def __getattr__(self, name: str) -> Any:
        call = getattr(self.of, name)

        def noted(*args: Any, **options: Any) -> Any:
            self.log.append(name)
            if name == self.fails:
                raise ConnectionError("gone")
            return call(*args, **options)

        return noted


def pair(log: list[str], fails: str | None = None) -> SplitDurable[Any]:
    return SplitDurable(Watched(MemoryCheckpointer(), log, fails), Watched(MemoryScheduler(), log, fails))


def test_a_value_is_recorded_before_its_wakeup_is_queued() -> None:
    log: list[str] = []
    durable = pair(log)
    assert durable.arrive("w", "go", 1) == 1
    assert durable.arrive("w", "go", 2) == 1
    assert (durable.deliver("w", "hi")).value == "hi"
    assert log == ["supply", "make_ready", "supply", "make_ready", "append", "make_ready"]


def test_a_deletion_cancels_before_it_discards() -> None:
    log: list[str] = []
    durable = pair(log)
    durable.arrive("w", "go", 1)
    del log[:]
    assert durable.delete("w") == 1
    assert log == ["cancel", "discard"]


def test_what_cannot_be_recorded_wakes_nobody() -> None:
    log: list[str] = []
    durable = pair(log)
    with pytest.raises(TypeError):
        durable.arrive("w", "go", object())
    with pytest.raises(ValueError):
        durable.delete("")
    assert log == ["supply"]


def test_a_wakeup_that_failed_is_made_good_by_sending_the_value_again() -> None:
    log: list[str] = []
    durable = pair(log, "make_ready")
    with pytest.raises(ConnectionError):
        durable.arrive("w", "go", 1)
    scheduler: Any = durable.scheduler
    scheduler.fails = None
    assert durable.arrive("w", "go", 2) == 1
    assert durable.scheduler.next_ready(ms(20)) is not None
