"""What cancelling does: only this flavour can be cancelled."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

import pytest
from durably_redis_async import (
    Blocked,
    Fenced,
    Graph,
    MemoryCheckpointer,
    MemoryScheduler,
    Pass,
    RedisCheckpointer,
    RedisSetScheduler,
    RedisStreamScheduler,
    Run,
    Sleeping,
    SplitDurable,
    Swallowed,
    claimed,
    resume,
    run_durably,
    work,
)
from redis.asyncio import Redis
from support import ms, same


async def test_a_record_is_written_however_often_the_step_is_cancelled_meanwhile() -> None:
    class Slow(MemoryCheckpointer):
        async def record(self, holder: Pass, key: str, value: object, **asked: Any) -> Any:
            await asyncio.sleep(0.05)
            return await super().record(holder, key, value, **asked)

    checkpointer = Slow()

    async def one() -> int:
        return 1

    async def body(run: Run) -> object:
        return await run.step("a", one, same)

    holder = await claimed(checkpointer, "w")
    running = asyncio.create_task(resume(holder, checkpointer, body))
    await asyncio.sleep(0.01)
    for _ in range(3):
        running.cancel()
        await asyncio.sleep(0.005)
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await checkpointer.load("w") == {"a": 1}


async def test_a_timeout_around_a_wait_lets_the_suspension_through(checkpointer: Any) -> None:
    async def body(run: Run) -> object:
        async with asyncio.timeout(5):
            return await run.awaiting("go", same)

    assert await resume(await claimed(checkpointer, "w"), checkpointer, body) == Blocked(waiting=("go",))


async def test_gathering_a_suspension_is_no_way_to_finish(checkpointer: Any) -> None:
    async def body(run: Run) -> object:
        return await asyncio.gather(run.awaiting("go", same), return_exceptions=True)

    with pytest.raises(Swallowed, match="go"):
        await resume(await claimed(checkpointer, "w"), checkpointer, body)


async def test_a_nested_group_with_a_failing_sibling_fails_and_does_not_suspend(checkpointer: Any) -> None:
    async def fails() -> None:
        raise LookupError("no")

    async def body(run: Run) -> None:
        async with asyncio.TaskGroup() as outer:
            outer.create_task(run.awaiting("a", same))

            async def inner() -> None:
                async with asyncio.TaskGroup() as group:
                    group.create_task(run.awaiting("b", same))
                    group.create_task(fails())

            outer.create_task(inner())

    with pytest.raises(LookupError):
        await resume(await claimed(checkpointer, "w"), checkpointer, body)


async def test_a_branch_that_outlives_its_body_leaves_no_deadline_without_a_wakeup(
    checkpointer: Any,
) -> None:
    left: list[asyncio.Future[Any]] = []

    async def body(run: Run) -> None:
        async def late() -> None:
            await asyncio.sleep(0.02)
            await run.sleep("late", ms(1))

        left.append(asyncio.ensure_future(late()))
        left.append(asyncio.ensure_future(run.sleep("soon", ms(5_000))))
        await asyncio.sleep(0)
        await run.awaiting("go", same)

    outcome = await resume(await claimed(checkpointer, "w"), checkpointer, body)
    done = await asyncio.gather(*left, return_exceptions=True)
    assert isinstance(done[0], Fenced)
    assert isinstance(outcome, Sleeping) and outcome.key == "soon"
    assert "late" not in await checkpointer.load("w")


@pytest.mark.parametrize("kind", ["memory", "stream", "set"])
async def test_cancelling_gives_the_claim_back_and_answers_for_nothing(
    kind: str, redis: Redis, namespace: str
) -> None:
    durable: SplitDurable[Any]
    if kind == "memory":
        durable = SplitDurable(MemoryCheckpointer(), MemoryScheduler(lease=ms(300)))
    else:
        kinds = {"stream": RedisStreamScheduler, "set": RedisSetScheduler}
        durable = SplitDurable(
            RedisCheckpointer(redis, namespace), kinds[kind](redis, namespace, lease=ms(300))
        )
    began = asyncio.Event()

    async def body(run: Run) -> None:
        began.set()
        await asyncio.sleep(30)

    running = asyncio.ensure_future(work(durable, body, within=ms(50)))
    await durable.scheduler.make_ready("w")
    await asyncio.wait_for(began.wait(), 5)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await durable.checkpointer.claim("w") is not None
    await asyncio.sleep(0.4)
    again = await durable.scheduler.reclaim(ms(300)) or await durable.scheduler.next_ready(ms(50))
    assert again is not None and again.workflow == "w"


async def test_a_graphs_failure_stops_the_nodes_that_run(checkpointer: Any) -> None:
    graph = Graph()
    stopped = asyncio.Event()

    async def fails() -> int:
        await asyncio.sleep(0.01)
        raise LookupError("no")

    async def waits() -> int:
        try:
            await asyncio.sleep(30)
        finally:
            stopped.set()
        return 1

    async def add(a: int, b: int) -> int:
        return a + b

    compiled = graph.compile(graph.node("c", add, graph.node("a", fails), graph.node("b", waits)))
    with pytest.raises(LookupError):
        await run_durably(compiled, checkpointer, await claimed(checkpointer, "w"))
    assert stopped.is_set()


async def test_a_node_that_ends_cancelled_fails_the_graph_and_hangs_nothing(checkpointer: Any) -> None:
    graph = Graph()

    async def forever() -> int:
        await asyncio.sleep(60)
        return 1

    async def gives_up() -> int:
        inner = asyncio.ensure_future(forever())
        await asyncio.sleep(0)
        inner.cancel()
        return await inner

    compiled = graph.compile(graph.node("a", gives_up))
    with pytest.raises(RuntimeError, match="'a' was cancelled"):
        await asyncio.wait_for(run_durably(compiled, checkpointer, await claimed(checkpointer, "w")), 5)


async def test_workers_side_by_side_are_all_drained_by_one_signal(redis: Redis, namespace: str) -> None:
    before = signal.getsignal(signal.SIGTERM)
    began: list[str] = []

    async def body(run: Run) -> None:
        began.append(run.workflow)
        await asyncio.sleep(0.2)

    running = []
    for n in range(3):
        durable: SplitDurable[Any] = SplitDurable(
            RedisCheckpointer(redis, f"{namespace}{n}"), RedisStreamScheduler(redis, f"{namespace}{n}")
        )
        await durable.scheduler.make_ready(f"w{n}")
        running.append(asyncio.ensure_future(work(durable, body, within=ms(50))))
    while len(began) < 3:
        await asyncio.sleep(0.01)
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.wait_for(asyncio.gather(*running), 5)
    assert signal.getsignal(signal.SIGTERM) == before


async def test_a_claim_cancelled_in_flight_is_given_back(namespace: str) -> None:
    asked = asyncio.Event()

    class Slow(MemoryCheckpointer):
        async def claim(self, *args: Any, **options: Any) -> Any:
            holder = await super().claim(*args, **options)
            asked.set()
            await asyncio.sleep(0.1)
            return holder

    async def body(run: Run) -> None:
        return None

    store = Slow()
    durable: SplitDurable[Any] = SplitDurable(store, MemoryScheduler())
    await durable.scheduler.make_ready("w")
    running = asyncio.ensure_future(work(durable, body, within=ms(50)))
    await asyncio.wait_for(asked.wait(), 5)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert await store.claim("w") is not None


async def test_callers_cancelled_within_a_shared_batch_leave_the_others_their_own_answers(
    redis: Redis, namespace: str
) -> None:
    store = RedisCheckpointer(redis, namespace)
    holder = await claimed(store, "w")
    answered = 0

    async def one(number: int) -> None:
        nonlocal answered
        written = await store.record(holder, f"s{number}", number)
        assert written.first and written.value == number
        answered += 1

    for turn in range(20):
        callers = [asyncio.ensure_future(one(turn * 50 + n)) for n in range(50)]
        for first in range(3):
            await asyncio.sleep(0.0002 * first)
            for caller in callers[first::7]:
                caller.cancel()
        ended = await asyncio.gather(*callers, return_exceptions=True)
        assert not [error for error in ended if isinstance(error, Exception)]
    assert answered >= 20 * 28
    recorded = await store.load("w")
    assert recorded == {name: int(name[1:]) for name in recorded}
    assert len(recorded) >= answered
