"""Both flavours on one namespace at once: what one begins the other ends, and they never both win."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import durably_redis_async as there
import durably_redis_sync as here
import pytest
from durably import Completed, Fenced, Pass, Sleeping
from durably.embedded import EmbeddedServer
from redis import Redis
from redis.asyncio import Redis as AsyncRedis
from support import ms, same
from support_async import client as connect_async
from support_sync import client as connect_sync


@pytest.fixture
async def far(server: EmbeddedServer) -> AsyncIterator[AsyncRedis]:
    client = connect_async(server.url)
    yield client
    await client.aclose()


@pytest.fixture
def near(server: EmbeddedServer) -> Any:
    client = connect_sync(server.url)
    yield client
    client.close()


def queues(kind: str, far: AsyncRedis, near: Redis, namespace: str, lease: float = 500) -> tuple[Any, Any]:
    if kind == "stream":
        return (
            there.RedisStreamScheduler(far, namespace, lease=ms(lease)),
            here.RedisStreamScheduler(near, namespace, lease=ms(lease)),
        )
    return (
        there.RedisSetScheduler(far, namespace, lease=ms(lease), poll=ms(10)),
        here.RedisSetScheduler(near, namespace, lease=ms(lease), poll=ms(10)),
    )


async def test_what_one_flavour_begins_the_other_ends(far: AsyncRedis, near: Redis, namespace: str) -> None:
    runs: list[str] = []

    async def body_there(run: there.Run) -> object:
        async def effect() -> str:
            runs.append("there")
            return "a"

        got = await run.step("a", effect, same)
        await run.sleep("nap", ms(30))
        return [got, await run.step("b", effect, same), [one.value for one in await run.receive("mail")]]

    def body_here(run: here.Run) -> object:
        def effect() -> str:
            runs.append("here")
            return "b"

        got = run.step("a", effect, same)
        run.sleep("nap", ms(30))
        return [got, run.step("b", effect, same), [one.value for one in run.receive("mail")]]

    store_there, store_here = (
        there.RedisCheckpointer(far, namespace),
        here.RedisCheckpointer(near, namespace),
    )
    for workflow, first in (("x", "there"), ("y", "here")):
        del runs[:]
        outcomes: list[Any] = []
        for turn in range(2):
            holder = await there.claimed(store_there, workflow)
            if (first == "there") == (turn == 0):
                outcomes.append(await there.resume(holder, store_there, body_there))
            else:
                outcomes.append(await asyncio.to_thread(here.resume, holder, store_here, body_here))
            await store_there.release(holder)
            await store_there.append(workflow, "hi")
            await asyncio.sleep(0.05)
        assert isinstance(outcomes[0], Sleeping)
        other = "here" if first == "there" else "there"
        expected = ["a", "b"] if first == "there" else ["b", "a"]
        assert outcomes[1] == Completed([*expected, ["hi"]])
        assert runs == [first, other]


async def test_only_one_of_both_claims_and_the_other_is_fenced(
    far: AsyncRedis, near: Redis, namespace: str
) -> None:
    store_there, store_here = (
        there.RedisCheckpointer(far, namespace),
        here.RedisCheckpointer(near, namespace),
    )
    for n in range(20):
        got: list[Pass | None] = list(
            await asyncio.gather(store_there.claim(f"w{n}"), asyncio.to_thread(store_here.claim, f"w{n}"))
        )
        assert len([one for one in got if one is not None]) == 1
    old = await there.claimed(store_there, "w", ms(50), ms(50))
    await asyncio.sleep(0.08)
    fresh = here.claimed(store_here, "w")
    with pytest.raises(Fenced):
        await store_there.record(old, "a", 1)
    assert store_here.record(fresh, "a", 2).first


@pytest.mark.parametrize("kind", ["stream", "set"])
async def test_an_abandoned_delivery_is_the_others_to_take(
    far: AsyncRedis, near: Redis, namespace: str, kind: str
) -> None:
    queue_there, queue_here = queues(kind, far, near, namespace)
    await queue_there.prepare()
    await queue_there.make_ready("w")
    taken = await queue_there.next_ready(ms(50))
    assert taken is not None and queue_here.next_ready(ms(20)) is None
    await asyncio.sleep(0.6)
    again = queue_here.reclaim(ms(500)) or queue_here.next_ready(ms(50))
    assert again is not None and again.workflow == "w"
    await queue_there.done(taken)
    queue_here.wake_at(again, here.now_utc())
    queue_here.wake_due()
    assert await queue_there.next_ready(ms(50)) is not None


@pytest.mark.parametrize("kind", ["stream", "set"])
async def test_workers_of_both_flavours_share_one_queue(
    far: AsyncRedis, near: Redis, namespace: str, kind: str
) -> None:
    queue_there, queue_here = queues(kind, far, near, namespace, lease=20_000)
    durable_there: Any = there.SplitDurable(there.RedisCheckpointer(far, namespace), queue_there)
    durable_here: Any = here.SplitDurable(here.RedisCheckpointer(near, namespace), queue_here)
    ran: Counter[str] = Counter()
    by: Counter[str] = Counter()
    ended: list[str] = []
    count = 80

    async def body_there(run: there.Run) -> None:
        by["there"] += 1

        async def effect() -> bool:
            ran[f"{run.workflow} first"] += 1
            return True

        async def last() -> bool:
            ran[f"{run.workflow} last"] += 1
            return True

        await run.step("first", effect, same)
        await run.sleep("nap", ms(20))
        await run.awaiting("go", same)
        await run.step("last", last, same)
        ended.append(run.workflow)

    def body_here(run: here.Run) -> None:
        by["here"] += 1

        def effect() -> bool:
            ran[f"{run.workflow} first"] += 1
            return True

        def last() -> bool:
            ran[f"{run.workflow} last"] += 1
            return True

        run.step("first", effect, same)
        run.sleep("nap", ms(20))
        run.awaiting("go", same)
        run.step("last", last, same)
        ended.append(run.workflow)

    stop_there, stop_here = asyncio.Event(), threading.Event()
    working = [
        asyncio.ensure_future(
            there.work(durable_there, body_there, stop=stop_there, within=ms(50), tick=ms(10), limit=5)
        ),
        asyncio.ensure_future(
            asyncio.to_thread(
                here.work, durable_here, body_here, stop=stop_here, within=ms(50), tick=ms(10), limit=5
            )
        ),
    ]
    try:
        for n in range(count):
            await durable_there.scheduler.make_ready(f"w{n}")
        for n in range(count):
            if n % 2:
                await durable_there.arrive(f"w{n}", "go", n)
            else:
                await asyncio.to_thread(durable_here.arrive, f"w{n}", "go", n)
        async with asyncio.timeout(30):
            while len(set(ended)) < count:
                await asyncio.sleep(0.01)
    finally:
        stop_there.set()
        stop_here.set()
        await asyncio.gather(*working)
    assert set(ran.values()) == {1} and len(ran) == 2 * count
    assert by["there"] > 5 and by["here"] > 5
    assert await queue_there.next_ready(ms(20)) is None and queue_here.reclaim(ms(0)) is None
