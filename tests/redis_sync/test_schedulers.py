# Generated from tests/redis_async/test_schedulers.py by twin.py. Edit that file.
"""What every scheduler owes, over memory, stream and set."""

from __future__ import annotations

import time
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from durably_redis_sync import Delivery, RedisSetScheduler, RedisStreamScheduler, now_utc
from support import ms
from support_sync import Started, sleep, together

SHORT = ms(30)


def drain(scheduler: Any) -> list[str]:
    """Every workflow that is ready now, each answered for."""
    found = []
    while (delivery := scheduler.next_ready(SHORT)) is not None:
        found.append(delivery.workflow)
        scheduler.done(delivery)
    return found


def wake(scheduler: Any) -> list[str]:
    """What is due now, woken and taken."""
    scheduler.wake_due(now_utc())
    return drain(scheduler)


def test_what_is_made_ready_is_yielded(scheduler: Any) -> None:
    for n in range(5):
        scheduler.make_ready(f"w{n}")
    assert sorted(drain(scheduler)) == [f"w{n}" for n in range(5)]


def test_nothing_ready_is_none_after_the_time_asked_for(scheduler: Any) -> None:
    started = time.monotonic()
    assert scheduler.next_ready(ms(60)) is None
    assert 0.05 <= time.monotonic() - started < 1


def test_a_reader_that_waits_is_given_what_comes(scheduler: Any) -> None:
    waiting = Started(scheduler.next_ready, ms(5_000))
    sleep(0.02)
    scheduler.make_ready("w")
    delivery = waiting.result(2)
    assert delivery.workflow == "w"


def test_an_abandoned_delivery_is_taken_over(redis: Any, namespace: str, scheduler: Any) -> None:
    scheduler.lease = ms(60)
    scheduler.make_ready("w")
    assert (scheduler.next_ready(SHORT)).workflow == "w"
    assert scheduler.reclaim(ms(60)) is None
    assert scheduler.next_ready(SHORT) is None
    sleep(0.09)
    again = scheduler.reclaim(ms(60)) or scheduler.next_ready(SHORT)
    assert again is not None and again.workflow == "w"


def test_extending_keeps_a_delivery_from_others(scheduler: Any) -> None:
    scheduler.lease = ms(90)
    scheduler.make_ready("w")
    delivery = scheduler.next_ready(SHORT)
    for _ in range(4):
        sleep(0.04)
        delivery = scheduler.extend(delivery, ms(90))
        assert scheduler.reclaim(ms(80)) is None
    scheduler.done(delivery)
    sleep(0.1)
    assert scheduler.reclaim(ms(1)) is None
    assert drain(scheduler) == []


def test_a_wakeup_in_the_middle_of_a_pass_survives_its_answer(scheduler: Any) -> None:
    scheduler.make_ready("w")
    delivery = scheduler.next_ready(SHORT)
    scheduler.make_ready("w")
    scheduler.done(delivery)
    assert drain(scheduler) == ["w"]


def test_a_wakeup_in_the_middle_of_a_pass_survives_its_sleep(scheduler: Any) -> None:
    scheduler.make_ready("w")
    delivery = scheduler.next_ready(SHORT)
    scheduler.make_ready("w")
    scheduler.wake_at(delivery, now_utc() + timedelta(hours=1))
    assert drain(scheduler) == ["w"]


def test_a_sleeper_wakes_at_its_deadline_and_not_before(scheduler: Any) -> None:
    scheduler.make_ready("w")
    scheduler.wake_at(scheduler.next_ready(SHORT), now_utc() + ms(150))
    assert wake(scheduler) == []
    sleep(0.2)
    assert wake(scheduler) == ["w"]
    assert wake(scheduler) == []


def test_the_soonest_wakeup_asked_for_stands(scheduler: Any) -> None:
    scheduler.make_ready("w")
    first = scheduler.next_ready(SHORT)
    scheduler.make_ready("w")
    second = scheduler.next_ready(SHORT)
    assert second is not None
    scheduler.wake_at(second, now_utc() + ms(20))
    scheduler.wake_at(first, now_utc() + timedelta(hours=1))
    sleep(0.05)
    assert wake(scheduler) == ["w"]


def test_a_cancelled_workflow_is_not_brought_back_by_a_pass_in_flight(scheduler: Any) -> None:
    scheduler.make_ready("w")
    delivery = scheduler.next_ready(SHORT)
    scheduler.cancel("w")
    scheduler.wake_at(delivery, now_utc() - ms(1))
    scheduler.done(delivery)
    assert wake(scheduler) == []


def test_cancel_drops_what_is_queued_and_what_sleeps_and_only_that_workflow(scheduler: Any) -> None:
    scheduler.make_ready("w")
    scheduler.wake_at(scheduler.next_ready(SHORT), now_utc() - ms(1))
    for _ in range(3):
        scheduler.make_ready("w")
    scheduler.make_ready("other")
    scheduler.cancel("w")
    assert wake(scheduler) == ["other"]
    scheduler.make_ready("w")
    assert wake(scheduler) == ["w"]


def test_done_and_extend_are_silent_about_what_is_no_longer_held(scheduler: Any) -> None:
    scheduler.make_ready("w")
    delivery = scheduler.next_ready(SHORT)
    scheduler.done(delivery)
    scheduler.done(delivery)
    assert scheduler.extend(delivery, ms(50)) == delivery
    scheduler.wake_at(delivery, now_utc() - ms(1))
    assert wake(scheduler) == []


def test_no_two_takes_share_a_receipt(scheduler: Any) -> None:
    receipts = set()
    for _ in range(300):
        scheduler.make_ready("w")
        delivery = scheduler.next_ready(SHORT)
        assert delivery.receipt not in receipts
        receipts.add(delivery.receipt)


def test_a_naive_moment_is_refused(scheduler: Any) -> None:
    naive = datetime(2030, 1, 1)
    scheduler.make_ready("w")
    delivery = scheduler.next_ready(SHORT)
    with pytest.raises(ValueError, match="time zone"):
        scheduler.wake_at(delivery, naive)
    with pytest.raises(ValueError, match="time zone"):
        scheduler.wake_due(naive)


def test_durations_must_be_positive_but_idle_may_be_zero(scheduler: Any) -> None:
    for bad in (timedelta(0), timedelta(seconds=-1)):
        with pytest.raises(ValueError):
            scheduler.next_ready(bad)
        with pytest.raises(ValueError):
            scheduler.extend(Delivery("w", "1-1"), bad)
    with pytest.raises(ValueError):
        scheduler.reclaim(timedelta(seconds=-1))
    assert scheduler.reclaim(timedelta(0)) is None


def test_no_duration_rounds_to_a_zero_that_means_something_else(scheduler: Any) -> None:
    started = time.monotonic()
    assert scheduler.next_ready(timedelta(microseconds=400)) is None
    assert time.monotonic() - started < 2
    scheduler.make_ready("w")
    delivery = scheduler.next_ready(SHORT)
    held = scheduler.extend(delivery, timedelta(microseconds=400))
    scheduler.done(held)


def test_an_empty_id_is_refused(scheduler: Any) -> None:
    for call in (scheduler.make_ready, scheduler.cancel):
        with pytest.raises(ValueError, match="empty"):
            call("")


def test_readers_side_by_side_never_get_the_same_wakeup(scheduler: Any) -> None:
    for n in range(60):
        scheduler.make_ready(f"w{n}")

    def read() -> list[str]:
        return drain(scheduler)

    got = together(*(read for _ in range(6)))
    assert sorted(one for part in got for one in part) == sorted(f"w{n}" for n in range(60))


def test_a_deadline_of_another_zone_is_the_same_moment(scheduler: Any) -> None:
    scheduler.make_ready("w")
    when = (now_utc() - ms(5)).astimezone(timezone(timedelta(hours=5)))
    scheduler.wake_at(scheduler.next_ready(SHORT), when)
    assert wake(scheduler) == ["w"]


def test_several_are_taken_at_once_and_never_more_than_asked_for(redis: Any, namespace: str) -> None:
    queues: list[Any] = [RedisStreamScheduler(redis, namespace), RedisSetScheduler(redis, namespace)]
    for queue in queues:
        queue.prepare()
        for n in range(7):
            queue.make_ready(f"w{n}")
        taken = queue.next_several(ms(20), 3)
        assert len(taken) == 3
        taken += queue.next_several(ms(20), 100)
        assert sorted(one.workflow for one in taken) == [f"w{n}" for n in range(7)]
        assert len({one.receipt for one in taken}) == 7
        assert queue.next_several(ms(5), 3) == []
        for one in taken:
            queue.done(one)
        assert queue.reclaim(ms(0)) is None
