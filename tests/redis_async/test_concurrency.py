"""How this flavour waits. Written by hand, as what it tests is."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable

import pytest
from durably_redis_async._client import Redis, RedisConnectionError, ResponseError, patiently
from durably_redis_async._concurrency import (
    Draining,
    Event,
    Mailbox,
    Nursery,
    Slots,
    Work,
    shielded,
    wait_for,
)
from durably_redis_async._gathering import SHARED, Gathering, kept


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


async def keep(said: list[int], gathering: Gathering[int, int]) -> list[int]:
    return [await gathering.say(one) for one in said]


async def test_a_kept_call_ends_though_its_caller_is_cancelled_again_and_again() -> None:
    under_way, flushed = asyncio.Event(), 0

    async def flush(said: list[int]) -> list[int]:
        nonlocal flushed
        under_way.set()
        await asyncio.sleep(0.02)
        flushed += len(said)
        if 13 in said:
            raise LookupError("unlucky")
        return said

    gathering: Gathering[int, int] = Gathering(flush)
    heard: list[object] = []

    async def both() -> None:
        try:
            heard.append(await kept(keep, [1, 2, 3], gathering))
        except BaseException as error:
            heard.append(type(error))
            raise

    running = asyncio.ensure_future(both())
    other = asyncio.ensure_future(gathering.say(7))
    await under_way.wait()
    for _ in range(4):
        running.cancel()
        await asyncio.sleep(0.005)
    with pytest.raises(asyncio.CancelledError):
        await running
    assert heard == [asyncio.CancelledError] and flushed == 4
    assert await other == 7
    assert await kept(keep, [1, 2], gathering) == [1, 2]

    failing = asyncio.ensure_future(kept(keep, [1, 13, 2], gathering))
    await asyncio.sleep(0.005)
    failing.cancel()
    with pytest.raises(LookupError):
        await failing


async def test_a_kept_call_may_wait_for_something_else_as_well() -> None:
    ended = asyncio.Event()

    async def call() -> int:
        await asyncio.sleep(0)
        await asyncio.sleep(0.02)
        ended.set()
        return 1

    running = asyncio.ensure_future(kept(call))
    for _ in range(3):
        await asyncio.sleep(0.001)
        running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert ended.is_set()
    assert await kept(call) == 1


async def test_a_kept_call_that_nobody_runs_any_more_is_closed() -> None:
    closed: list[str] = []

    async def flush(said: list[int]) -> list[int]:
        return said

    gathering: Gathering[int, int] = Gathering(flush)

    async def call() -> None:
        try:
            await gathering.say(1)
        finally:
            closed.append("closed")

    left = kept(call)
    left.send(None)
    left.close()
    assert closed == ["closed"]
    await asyncio.sleep(0)


async def test_a_timeout_around_a_kept_call_is_one_when_the_call_has_ended() -> None:
    async def flush(said: list[int]) -> list[int]:
        await asyncio.sleep(0.03)
        return said

    gathering: Gathering[int, int] = Gathering(flush)
    ended: list[int] = []

    async def call() -> None:
        ended.append(await gathering.say(1))

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await kept(call)
    assert ended == [1]
    task = asyncio.current_task()
    assert task is not None and not task.cancelling()


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

    failed = Event()
    async with Nursery(failed) as nursery:
        for n in range(3):
            nursery.start(call, n)
        assert not await nursery.settle(0.001)
        assert await nursery.settle(5)
    assert sorted(done) == [0, 1, 2]
    assert not failed.is_set()

    async def boom() -> None:
        raise LookupError("no")

    async def forever() -> None:
        await asyncio.sleep(60)

    with pytest.raises(ExceptionGroup):
        async with Nursery(failed) as nursery:
            nursery.start(forever)
            nursery.start(boom)
    assert failed.is_set()


async def test_what_a_nursery_runs_can_be_stopped() -> None:
    async def forever() -> None:
        await asyncio.sleep(60)

    async with Nursery() as nursery:
        nursery.start(forever)
        assert not await nursery.settle(0.001)
        nursery.abandon()


async def test_work_can_be_stopped_before_it_begins_and_while_it_runs() -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    async def call() -> None:
        began.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    early = Work()
    early.cancel()
    await early.run(call)
    assert not began.is_set()
    late = Work()
    running = asyncio.ensure_future(late.run(call))
    await began.wait()
    assert late.name
    late.cancel()
    await running
    assert ended.is_set()


@pytest.mark.parametrize("swallows", [False, True])
async def test_work_that_runs_here_is_stopped_and_its_caller_is_not(swallows: bool) -> None:
    began = asyncio.Event()

    async def call() -> None:
        began.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            if not swallows:
                raise

    early = Work()
    early.cancel()
    await early.run_here(call)
    assert not began.is_set()
    late = Work()

    async def caller() -> str:
        await late.run_here(call)
        await asyncio.sleep(0.01)
        return "went on"

    running = asyncio.ensure_future(caller())
    await began.wait()
    late.cancel()
    assert await running == "went on"
    assert not running.cancelling()


@pytest.mark.parametrize("ours_first", [False, True])
async def test_a_caller_that_is_cancelled_with_its_work_is_cancelled(ours_first: bool) -> None:
    began = asyncio.Event()

    async def call() -> None:
        began.set()
        await asyncio.sleep(60)

    work = Work()
    running = asyncio.ensure_future(work.run_here(call))
    await began.wait()
    for ours in (ours_first, not ours_first):
        if ours:
            work.cancel()
        else:
            running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_work_that_runs_here_and_cancels_itself_leaves_its_caller_alone() -> None:
    async def call() -> None:
        other = asyncio.get_running_loop().create_future()
        other.cancel()
        await other

    await Work().run_here(call)

    async def fails() -> None:
        raise LookupError("no")

    with pytest.raises(LookupError):
        await Work().run_here(fails)


async def test_work_ends_with_its_caller() -> None:
    ended = asyncio.Event()

    async def call() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    running = asyncio.ensure_future(Work().run(call))
    await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert ended.is_set()


async def test_a_first_signal_drains_and_a_second_does_what_it_did() -> None:
    seen: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: seen.append(number))
    try:
        stop = Event()
        with Draining(stop, True):
            os.kill(os.getpid(), signal.SIGTERM)
            assert await wait_for(stop, 5)
            assert seen == []
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.sleep(0.01)
            assert seen == [signal.SIGTERM]
        with Draining(stop, False):
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.sleep(0.01)
        assert seen == [signal.SIGTERM] * 2
    finally:
        signal.signal(signal.SIGTERM, before)


async def test_a_mailbox_gives_the_oldest_and_none_when_none_came() -> None:
    box: Mailbox[int] = Mailbox()
    assert await box.get(0.01) is None
    box.put(1)
    box.put(2)
    got: list[Awaitable[int | None]] = [box.get(), box.get(1)]
    assert [await one for one in got] == [1, 2]


async def test_callers_that_gather_share_flushes_and_none_is_lost() -> None:
    sizes: list[int] = []

    async def flush(said: list[int]) -> list[int]:
        sizes.append(len(said))
        await asyncio.sleep(0.005)
        if 13 in said:
            raise LookupError("unlucky")
        return [one * 2 for one in said]

    gathering: Gathering[int, int] = Gathering(flush)
    answers = await asyncio.gather(*(gathering.say(n) for n in range(20, 120)))
    assert answers == [n * 2 for n in range(20, 120)]
    assert len(sizes) < 10

    with pytest.raises(LookupError):
        await gathering.say(13)
    first, second = (asyncio.ensure_future(gathering.say(n)) for n in (1, 2))
    await asyncio.sleep(0)
    first.cancel()
    assert await second == 4
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_many_callers_are_two_flushes_that_overlap_and_few_are_one() -> None:
    sizes: list[int] = []
    overlapped: list[int] = []
    under_way = 0

    async def flush(said: list[int]) -> list[int]:
        nonlocal under_way
        sizes.append(len(said))
        under_way += 1
        await asyncio.sleep(0.01)
        overlapped.append(under_way)
        under_way -= 1
        return said

    gathering: Gathering[int, int] = Gathering(flush)
    for _ in range(2):
        sizes.clear()
        assert await asyncio.gather(*map(gathering.say, range(SHARED * 2))) == list(range(SHARED * 2))
        assert sizes == [SHARED, SHARED]
        assert max(overlapped) == 2
    sizes.clear()
    await asyncio.gather(*map(gathering.say, range(SHARED - 1)))
    assert sizes == [SHARED - 1]


@pytest.mark.parametrize("ends", ["lost", "answered", "refused"])
async def test_a_cancellation_that_the_client_swallows_is_one_all_the_same(ends: str) -> None:
    calls = 0

    async def call() -> str:
        nonlocal calls
        calls += 1
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            if ends == "lost":
                raise RedisConnectionError("lost") from None
            if ends == "refused":
                raise ResponseError("BUSYGROUP Consumer Group name already exists") from None
        return "answer"

    running = asyncio.ensure_future(patiently(Redis(), call))
    await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(running, 5)
    assert calls == 1


async def test_who_speaks_in_the_moment_in_which_the_lanes_end_is_heard() -> None:
    async def flush(said: list[int]) -> list[int]:
        return said

    gathering: Gathering[int, int] = Gathering(flush)

    async def speak(number: int) -> list[int]:
        return [await gathering.say(number), await gathering.say(-number)]

    async with asyncio.timeout(5):
        assert await asyncio.gather(*map(speak, range(4))) == [[n, -n] for n in range(4)]


async def test_gathering_serves_a_caller_that_comes_as_both_lanes_end() -> None:
    gate = asyncio.Event()

    async def flush(batch: list[int]) -> list[int]:
        await gate.wait()
        return batch

    gathering: Gathering[int, int] = Gathering(flush)

    async def twice() -> int:
        await gathering.say(1)
        return await gathering.say(3)

    first = asyncio.ensure_future(twice())
    await asyncio.sleep(0)
    second = asyncio.ensure_future(gathering.say(2))
    await asyncio.sleep(0.01)
    gate.set()
    assert list(await asyncio.wait_for(asyncio.gather(first, second), 2)) == [3, 2]


async def _fails(after: float) -> None:
    await asyncio.sleep(after)
    raise RuntimeError("failed")


async def _lingers() -> None:
    try:
        await asyncio.sleep(60)
    finally:
        await asyncio.sleep(0.05)


async def test_a_nursery_that_failed_leaves_no_cancellation_behind() -> None:
    with pytest.raises(BaseExceptionGroup):
        async with Nursery() as nursery:
            nursery.start(_fails, 0.01)
    task = asyncio.current_task()
    assert task is not None and task.cancelling() == 0


async def test_a_failure_does_not_undo_a_cancellation() -> None:
    async def work() -> None:
        try:
            async with Nursery() as nursery:
                nursery.start(_fails, 0.01)
                nursery.start(_lingers)
        except BaseExceptionGroup:
            await asyncio.sleep(60)  # as a caller does that tries again

    running = asyncio.ensure_future(work())
    await asyncio.sleep(0.03)  # one has failed, the other cleans up
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(running, 1)
