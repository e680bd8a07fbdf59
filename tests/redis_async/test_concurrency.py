"""How this flavour waits. Written by hand, as what it tests is."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from durably_redis_async._concurrency import (
    Event,
    Mailbox,
    Nursery,
    Slots,
    shielded,
    wait_for,
)


async def test_waiting_for_an_event_says_whether_it_is_set() -> None:
    event = Event()
    assert not await wait_for(event, 0.01)
    asyncio.get_running_loop().call_later(0.01, event.set)
    assert await wait_for(event, 5)
    assert await wait_for(event, None)


async def test_a_shielded_call_ends_though_its_caller_is_cancelled_again_and_again() -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    async def call(result: int) -> int:
        began.set()
        await asyncio.sleep(0.05)
        ended.set()
        return result

    running = asyncio.ensure_future(shielded(call, 3))
    await began.wait()
    for _ in range(3):
        running.cancel()
        await asyncio.sleep(0.001)
    with pytest.raises(asyncio.CancelledError):
        await running
    assert ended.is_set()
    assert await shielded(call, 3) == 3


async def test_a_shielded_calls_failure_wins_over_the_cancellation() -> None:
    async def call() -> None:
        await asyncio.sleep(0.02)
        raise LookupError("no")

    running = asyncio.ensure_future(shielded(call))
    await asyncio.sleep(0.005)
    running.cancel()
    with pytest.raises(LookupError):
        await running


async def test_a_shielded_call_that_is_itself_cancelled_says_so() -> None:
    async def call() -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await shielded(call)


async def test_slots_are_given_in_turn_and_never_lost() -> None:
    slots = Slots(2)
    assert await slots.acquire() and await slots.acquire()
    assert not await slots.acquire(0.01)
    first = asyncio.ensure_future(slots.acquire())
    second = asyncio.ensure_future(slots.acquire(5))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    slots.release()
    assert await second
    assert not await slots.acquire(0.01)
    slots.release()
    slots.release()
    assert await slots.acquire(0.01) and await slots.acquire(0.01)


async def test_a_slot_that_was_given_to_a_cancelled_waiter_is_given_on() -> None:
    slots = Slots(1)
    await slots.acquire()
    waiting = asyncio.ensure_future(slots.acquire())
    await asyncio.sleep(0)
    slots.release()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert await slots.acquire(0.01)
    assert not await slots.acquire(0.01)


async def test_a_nursery_ends_with_its_calls_and_groups_their_failures() -> None:
    done: list[int] = []

    async def call(n: int) -> None:
        await asyncio.sleep(0.01)
        done.append(n)

    async with Nursery() as nursery:
        works = [nursery.start(call, n) for n in range(3)]
    assert sorted(done) == [0, 1, 2]
    assert all(one.done for one in works)

    async def boom() -> None:
        raise LookupError("no")

    async def forever() -> None:
        await asyncio.sleep(60)

    with pytest.raises(ExceptionGroup):
        async with Nursery() as nursery:
            nursery.start(forever)
            nursery.start(boom)


@pytest.mark.parametrize("how", ["one", "all"])
async def test_what_a_nursery_runs_can_be_stopped(how: str) -> None:
    async def forever() -> None:
        await asyncio.sleep(60)

    async with Nursery() as nursery:
        work = nursery.start(forever)
        await asyncio.sleep(0)
        stop: Callable[[], None] = work.cancel if how == "one" else nursery.cancel
        stop()
    assert work.done


async def test_a_mailbox_gives_the_oldest_and_none_when_none_came() -> None:
    box: Mailbox[int] = Mailbox()
    assert await box.get(0.01) is None
    box.put(1)
    box.put(2)
    got: list[Awaitable[int | None]] = [box.get(), box.get(1)]
    assert [await one for one in got] == [1, 2]
