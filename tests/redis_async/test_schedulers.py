"""What every scheduler owes, over memory, stream and set."""

from __future__ import annotations

import time
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from durably_redis_async import Delivery, RedisSetScheduler, RedisStreamScheduler, now_utc
from support import ms
from support_async import Started, sleep, together

SHORT = ms(30)


async def drain(scheduler: Any) -> list[str]:
    """Every workflow that is ready now, each answered for."""
    found = []
    while (delivery := await scheduler.next_ready(SHORT)) is not None:
        found.append(delivery.workflow)
        await scheduler.done(delivery)
    return found


async def wake(scheduler: Any) -> list[str]:
    """What is due now, woken and taken."""
    await scheduler.wake_due(now_utc())
    return await drain(scheduler)


async def test_what_is_made_ready_is_yielded(scheduler: Any) -> None:
    for n in range(5):
        await scheduler.make_ready(f"w{n}")
    assert sorted(await drain(scheduler)) == [f"w{n}" for n in range(5)]


async def test_nothing_ready_is_none_after_the_time_asked_for(scheduler: Any) -> None:
    started = time.monotonic()
    assert await scheduler.next_ready(ms(60)) is None
    assert 0.05 <= time.monotonic() - started < 1


async def test_a_reader_that_waits_is_given_what_comes(scheduler: Any) -> None:
    waiting = Started(scheduler.next_ready, ms(5_000))
    await sleep(0.02)
    await scheduler.make_ready("w")
    delivery = await waiting.result(2)
    assert delivery.workflow == "w"


async def test_an_abandoned_delivery_is_taken_over(redis: Any, namespace: str, scheduler: Any) -> None:
    scheduler.lease = ms(60)
    await scheduler.make_ready("w")
    assert (await scheduler.next_ready(SHORT)).workflow == "w"
    assert await scheduler.reclaim(ms(60)) is None
    assert await scheduler.next_ready(SHORT) is None
    await sleep(0.09)
    again = await scheduler.reclaim(ms(60)) or await scheduler.next_ready(SHORT)
    assert again is not None and again.workflow == "w"


async def test_extending_keeps_a_delivery_from_others(scheduler: Any) -> None:
    scheduler.lease = ms(90)
    await scheduler.make_ready("w")
    delivery = await scheduler.next_ready(SHORT)
    for _ in range(4):
        await sleep(0.04)
        delivery = await scheduler.extend(delivery, ms(90))
        assert await scheduler.reclaim(ms(80)) is None
    await scheduler.done(delivery)
    await sleep(0.1)
    assert await scheduler.reclaim(ms(1)) is None
    assert await drain(scheduler) == []


async def test_a_wakeup_in_the_middle_of_a_pass_survives_its_answer(scheduler: Any) -> None:
    await scheduler.make_ready("w")
    delivery = await scheduler.next_ready(SHORT)
    await scheduler.make_ready("w")
    await scheduler.done(delivery)
    assert await drain(scheduler) == ["w"]


async def test_a_wakeup_in_the_middle_of_a_pass_survives_its_sleep(scheduler: Any) -> None:
    await scheduler.make_ready("w")
    delivery = await scheduler.next_ready(SHORT)
    await scheduler.make_ready("w")
    await scheduler.wake_at(delivery, now_utc() + timedelta(hours=1))
    assert await drain(scheduler) == ["w"]


async def test_a_sleeper_wakes_at_its_deadline_and_not_before(scheduler: Any) -> None:
    await scheduler.make_ready("w")
    await scheduler.wake_at(await scheduler.next_ready(SHORT), now_utc() + ms(150))
    assert await wake(scheduler) == []
    await sleep(0.2)
    assert await wake(scheduler) == ["w"]
    assert await wake(scheduler) == []


async def test_the_soonest_wakeup_asked_for_stands(scheduler: Any) -> None:
    await scheduler.make_ready("w")
    first = await scheduler.next_ready(SHORT)
    await scheduler.make_ready("w")
    second = await scheduler.next_ready(SHORT)
    assert second is not None
    await scheduler.wake_at(second, now_utc() + ms(20))
    await scheduler.wake_at(first, now_utc() + timedelta(hours=1))
    await sleep(0.05)
    assert await wake(scheduler) == ["w"]


async def test_a_cancelled_workflow_is_not_brought_back_by_a_pass_in_flight(scheduler: Any) -> None:
    await scheduler.make_ready("w")
    delivery = await scheduler.next_ready(SHORT)
    await scheduler.cancel("w")
    await scheduler.wake_at(delivery, now_utc() - ms(1))
    await scheduler.done(delivery)
    assert await wake(scheduler) == []


async def test_cancel_drops_what_is_queued_and_what_sleeps_and_only_that_workflow(scheduler: Any) -> None:
    await scheduler.make_ready("w")
    await scheduler.wake_at(await scheduler.next_ready(SHORT), now_utc() - ms(1))
    for _ in range(3):
        await scheduler.make_ready("w")
    await scheduler.make_ready("other")
    await scheduler.cancel("w")
    assert await wake(scheduler) == ["other"]
    await scheduler.make_ready("w")
    assert await wake(scheduler) == ["w"]


async def test_done_and_extend_are_silent_about_what_is_no_longer_held(scheduler: Any) -> None:
    await scheduler.make_ready("w")
    delivery = await scheduler.next_ready(SHORT)
    await scheduler.done(delivery)
    await scheduler.done(delivery)
    assert await scheduler.extend(delivery, ms(50)) == delivery
    await scheduler.wake_at(delivery, now_utc() - ms(1))
    assert await wake(scheduler) == []


async def test_no_two_takes_share_a_receipt(scheduler: Any) -> None:
    receipts = set()
    for _ in range(300):
        await scheduler.make_ready("w")
        delivery = await scheduler.next_ready(SHORT)
        assert delivery.receipt not in receipts
        receipts.add(delivery.receipt)


async def test_a_naive_moment_is_refused(scheduler: Any) -> None:
    naive = datetime(2030, 1, 1)
    await scheduler.make_ready("w")
    delivery = await scheduler.next_ready(SHORT)
    with pytest.raises(ValueError, match="time zone"):
        await scheduler.wake_at(delivery, naive)
    with pytest.raises(ValueError, match="time zone"):
        await scheduler.wake_due(naive)


async def test_durations_must_be_positive_but_idle_may_be_zero(scheduler: Any) -> None:
    for bad in (timedelta(0), timedelta(seconds=-1)):
        with pytest.raises(ValueError):
            await scheduler.next_ready(bad)
        with pytest.raises(ValueError):
            await scheduler.extend(Delivery("w", "1-1"), bad)
    with pytest.raises(ValueError):
        await scheduler.reclaim(timedelta(seconds=-1))
    assert await scheduler.reclaim(timedelta(0)) is None


async def test_no_duration_rounds_to_a_zero_that_means_something_else(scheduler: Any) -> None:
    started = time.monotonic()
    assert await scheduler.next_ready(timedelta(microseconds=400)) is None
    assert time.monotonic() - started < 2
    await scheduler.make_ready("w")
    delivery = await scheduler.next_ready(SHORT)
    held = await scheduler.extend(delivery, timedelta(microseconds=400))
    await scheduler.done(held)


async def test_an_empty_id_is_refused(scheduler: Any) -> None:
    for call in (scheduler.make_ready, scheduler.cancel):
        with pytest.raises(ValueError, match="empty"):
            await call("")


async def test_readers_side_by_side_never_get_the_same_wakeup(scheduler: Any) -> None:
    for n in range(60):
        await scheduler.make_ready(f"w{n}")

    async def read() -> list[str]:
        return await drain(scheduler)

    got = await together(*(read for _ in range(6)))
    assert sorted(one for part in got for one in part) == sorted(f"w{n}" for n in range(60))


async def test_a_deadline_of_another_zone_is_the_same_moment(scheduler: Any) -> None:
    await scheduler.make_ready("w")
    when = (now_utc() - ms(5)).astimezone(timezone(timedelta(hours=5)))
    await scheduler.wake_at(await scheduler.next_ready(SHORT), when)
    assert await wake(scheduler) == ["w"]


async def test_several_are_taken_at_once_and_never_more_than_asked_for(redis: Any, namespace: str) -> None:
    queues: list[Any] = [RedisStreamScheduler(redis, namespace), RedisSetScheduler(redis, namespace)]
    for queue in queues:
        await queue.prepare()
        for n in range(7):
            await queue.make_ready(f"w{n}")
        taken = await queue.next_several(ms(20), 3)
        assert len(taken) == 3
        taken += await queue.next_several(ms(20), 100)
        assert sorted(one.workflow for one in taken) == [f"w{n}" for n in range(7)]
        assert len({one.receipt for one in taken}) == 7
        assert await queue.next_several(ms(5), 3) == []
        for one in taken:
            await queue.done(one)
        assert await queue.reclaim(ms(0)) is None
