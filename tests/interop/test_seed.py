"""The wire format is a promise: workers of the package it comes from and ours share keys and queues.

Runs where that package is installed (`nox -s interop`), and then must not be skipped.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import threading
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import durably_redis_async as ours
import durably_redis_sync as blocking
import pytest
from durably.embedded import EmbeddedServer
from redis.asyncio import Redis
from support import ms, same
from support_async import client as connect
from support_sync import client as connect_sync

if "DURABLY_INTEROP" not in os.environ and importlib.util.find_spec("without_durability") is None:
    pytest.skip("nox -s interop brings the other package (Python 3.13)", allow_module_level=True)

theirs: Any = pytest.importorskip("without_durability")
their_stores: Any = pytest.importorskip("without_durability_redis")


@pytest.fixture
async def redis(server: EmbeddedServer) -> AsyncIterator[Redis]:
    client = connect(server.url)
    yield client
    await client.aclose()


def pair(of: Any, stores: Any, kind: str, client: Any, namespace: str) -> Any:
    store = stores.RedisCheckpointer(client, namespace)
    if kind == "stream":
        return of.SplitDurable(store, stores.RedisStreamScheduler(client, namespace, lease=ms(1500)))
    return of.SplitDurable(store, stores.RedisSetScheduler(client, namespace, lease=ms(1500), poll=ms(10)))


async def body(run: Any, ran: Counter[str], ended: list[str]) -> object:
    async def effect() -> object:
        ran[f"{run.workflow} a"] += 1
        return {"é": [1, None, 2.5], "a": "x"}

    async def last() -> object:
        ran[f"{run.workflow} b"] += 1
        return 7

    first = await run.step("a", effect, same)
    await run.sleep("nap", ms(30))
    go = await run.awaiting("go", same)
    mail = await run.receive("mail")
    value = [first, await run.step("b", last, same), go, [one.value for one in mail]]
    ended.append(run.workflow)
    return value


EXPECTED = [{"é": [1, None, 2.5], "a": "x"}, 7, "go", ["ho", "hi"]]


@pytest.mark.parametrize("kind", ["stream", "set"])
@pytest.mark.parametrize("order", [(theirs, ours), (ours, theirs)], ids=["theirs first", "ours first"])
async def test_what_one_begins_the_other_ends(redis: Redis, namespace: str, kind: str, order: Any) -> None:
    stores = {id(ours): ours, id(theirs): their_stores}
    ran: Counter[str] = Counter()
    outcomes: list[Any] = []
    for turn, of in enumerate((*order, *order)):
        durable = pair(of, stores[id(of)], kind, redis, namespace)
        holder = await of.claimed(durable.checkpointer, "w")
        outcomes.append(await of.resume(holder, durable.checkpointer, lambda run: body(run, ran, [])))
        await durable.checkpointer.release(holder)
        if turn == 1:
            await durable.arrive("w", "go", "go")
            await durable.deliver("w", "hi")
        if turn == 0:
            await durable.deliver("w", "ho")
            await asyncio.sleep(0.05)
    kinds = [type(one).__name__ for one in outcomes]
    assert kinds == ["Sleeping", "Blocked", "Completed", "Completed"]
    assert outcomes[2].value == EXPECTED
    assert outcomes[3].value == outcomes[2].value
    assert set(ran.values()) == {1}
    for of in order:
        store = stores[id(of)].RedisCheckpointer(redis, namespace)
        assert list(await store.load("w")) == list(await ours.RedisCheckpointer(redis, namespace).load("w"))
    discarded = await pair(order[1], stores[id(order[1])], kind, redis, namespace).delete("w")
    assert discarded == len(outcomes[3].value) + 3


@pytest.mark.parametrize("kind", ["stream", "set"])
async def test_one_claims_and_the_other_is_contended_and_fenced(
    redis: Redis, namespace: str, kind: str
) -> None:
    our_store = ours.RedisCheckpointer(redis, namespace)
    their_store = their_stores.RedisCheckpointer(redis, namespace)
    holder = await their_store.claim("w", ms(200), ms(100))
    assert await our_store.claim("w") is None
    await asyncio.sleep(0.15)
    mine = await our_store.claim("w")
    assert mine is not None and mine.token > holder.token
    with pytest.raises(theirs.Fenced):
        await their_store.record(holder, "a", 1)
    assert await their_store.claim("w", ms(200), ms(100)) is None
    assert (await our_store.record(mine, "a", 1)).first
    await our_store.release(mine)
    again = await their_store.claim("w", ms(200), ms(100))
    assert again.token > mine.token
    with pytest.raises(ours.Fenced):
        await our_store.record(mine, "b", 1)


@pytest.mark.parametrize("kind", ["stream", "set"])
async def test_all_kinds_of_workers_share_one_queue(
    redis: Redis, server: EmbeddedServer, namespace: str, kind: str
) -> None:
    ran: Counter[str] = Counter()
    ended: list[str] = []
    count = 60
    our_durable = pair(ours, ours, kind, redis, namespace)
    their_durable = pair(theirs, their_stores, kind, redis, namespace)
    near = connect_sync(server.url)
    blocking_durable = pair(blocking, blocking, kind, near, namespace)
    by: Counter[str] = Counter()

    async def ours_body(run: Any) -> object:
        by["ours"] += 1
        return await body(run, ran, ended)

    async def their_body(run: Any) -> object:
        by["theirs"] += 1
        return await body(run, ran, ended)

    def blocking_body(run: Any) -> None:
        by["blocking"] += 1

        def effect(which: str, value: object) -> Any:
            def act() -> object:
                ran[f"{run.workflow} {which}"] += 1
                return value

            return act

        run.step("a", effect("a", EXPECTED[0]), same)
        run.sleep("nap", ms(30))
        run.awaiting("go", same)
        run.receive("mail")
        run.step("b", effect("b", 7), same)
        ended.append(run.workflow)

    stop, stop_blocking = asyncio.Event(), threading.Event()
    await their_durable.scheduler.prepare()
    their_worker = asyncio.ensure_future(
        theirs.work(their_durable, their_body, limit=4, within=ms(50), tick=ms(10))
    )
    our_worker = asyncio.ensure_future(
        ours.work(our_durable, ours_body, limit=4, within=ms(50), tick=ms(10), stop=stop)
    )
    beside = asyncio.ensure_future(
        asyncio.to_thread(
            blocking.work,
            blocking_durable,
            blocking_body,
            limit=4,
            within=ms(50),
            tick=ms(10),
            stop=stop_blocking,
        )
    )
    submitters = [our_durable, their_durable]
    try:
        for n in range(count):
            await submitters[n % 2].scheduler.make_ready(f"w{n}")
        for n in range(count):
            await submitters[(n + 1) % 2].arrive(f"w{n}", "go", n)
            await submitters[n % 2].deliver(f"w{n}", "hi")
        async with asyncio.timeout(40):
            while len(set(ended)) < count:
                await asyncio.sleep(0.02)
        await asyncio.sleep(0.3)
    finally:
        stop.set()
        stop_blocking.set()
        await asyncio.gather(our_worker, beside)
        their_worker.cancel()
        await asyncio.gather(their_worker, return_exceptions=True)
        near.close()
    assert set(ran.values()) == {1} and len(ran) == 2 * count
    assert min(by[name] for name in ("ours", "theirs", "blocking")) > 3, by
    assert await our_durable.scheduler.next_ready(ms(30)) is None
    assert await our_durable.scheduler.reclaim(ms(0)) is None
