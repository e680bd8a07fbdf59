"""A server that has less than another had accepted when a pass ends, as one that took over may: no workflow is ended,
put to sleep or left waiting over records that are not there."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest
from durably_redis_async import (
    Completed,
    Delivery,
    RedisCheckpointer,
    RedisDurable,
    RedisSetScheduler,
    RedisStreamScheduler,
    Run,
    SplitDurable,
    advance,
    sweep,
)
from durably_redis_async._client import is_cluster, send
from durably_redis_async.interfaces import claimed
from support import ms, same
from support_async import Redis, eventually


@pytest.fixture(params=["stream", "set"])
async def durable(request: pytest.FixtureRequest, redis: Redis, namespace: str) -> Any:
    """Each queue, as one pair with its store where there is one server."""
    queue: Any
    if request.param == "stream":
        queue = RedisStreamScheduler(redis, namespace, lease=ms(60_000))
    else:
        queue = RedisSetScheduler(redis, namespace, lease=ms(60_000), poll=ms(5))
    await queue.prepare()
    store = RedisCheckpointer(redis, namespace)
    return SplitDurable(store, queue) if is_cluster(redis) else RedisDurable(store, queue)


async def next_delivery(durable: Any) -> Delivery:
    async def look() -> Any:
        await durable.scheduler.wake_due()
        return await durable.scheduler.next_ready(ms(5))

    found: Delivery = await eventually(look, describing="a wakeup comes")
    return found


async def is_queued(durable: Any) -> bool:
    await durable.scheduler.wake_due()
    return await durable.scheduler.next_ready(ms(5)) is not None


class Server:
    """What the server has of workflow `w`, kept and brought back: as if nothing later had reached it."""

    def __init__(self, redis: Redis, store: RedisCheckpointer) -> None:
        self.redis: Any = redis
        self.store = store
        self.kept: list[tuple[str, dict[str, str]]] = []

    async def keep(self) -> None:
        """From now on nothing reaches the server that takes over."""
        keys = (self.store.hash_key("w"), self.store.pass_key("w"))
        self.kept = [(key, await self.redis.hgetall(key)) for key in keys]

    async def take_over(self) -> None:
        """With what was kept."""
        for key, fields in self.kept:
            await self.redis.delete(key)
            if fields:
                await self.redis.hset(key, mapping=fields)
                await self.redis.pexpire(key, 60_000)


class Body:
    """Two steps, after the first of which nothing more reaches the server that takes over after the second; then what
    `ends` does."""

    def __init__(self, server: Server, ends: Callable[[Run], Any]) -> None:
        self.server = server
        self.ends = ends
        self.ran: list[str] = []
        self.over = False

    async def step(self, run: Run, name: str) -> None:
        async def effect() -> str:
            self.ran.append(name)
            return name

        await run.step(name, effect, str)

    async def __call__(self, run: Run) -> object:
        await self.step(run, "a")
        if not self.over:
            await self.server.keep()
        await self.step(run, "b")
        if not self.over:
            self.over = True
            await self.server.take_over()
        return await self.ends(run)


async def completes(run: Run) -> object:
    return "done"


async def sleeps(run: Run) -> object:
    if "nap" not in run.recorded:
        await run.sleep("nap", ms(60_000))
    return "done"


async def waits(run: Run) -> object:
    return await run.awaiting("go", same)


@pytest.mark.parametrize("ends", [completes, waits])
async def test_the_next_pass_goes_on_from_what_there_is(
    durable: Any, redis: Redis, ends: Any, caplog: pytest.LogCaptureFixture
) -> None:
    body = Body(Server(redis, durable.checkpointer), ends)
    await durable.scheduler.make_ready("w")
    with caplog.at_level(logging.WARNING, "durably.worker"):
        await advance(durable, body, await next_delivery(durable))
        assert list(await durable.checkpointer.load("w")) == ["a"]
        again = await advance(durable, body, await next_delivery(durable))
    assert [one for one in caplog.messages if "'w'" in one and "fewer records" in one]
    assert list(await durable.checkpointer.load("w")) == ["a", "b"] and body.ran == ["a", "b", "b"]
    assert isinstance(again, Completed) == (ends is completes)
    assert not await is_queued(durable) and not await durable.scheduler.parked()
    if ends is waits:
        await durable.arrive("w", "go", 7)
        assert await advance(durable, body, await next_delivery(durable)) == Completed(7)


async def test_a_sleep_that_is_not_recorded_is_recorded_again(durable: Any, redis: Redis) -> None:
    server = Server(redis, durable.checkpointer)
    recorded: list[bool] = []

    async def body(run: Run) -> object:
        recorded.append("nap" in run.recorded)
        await run.sleep("nap", ms(20))
        return "done"

    await durable.scheduler.make_ready("w")
    delivery = await next_delivery(durable)

    async def first(run: Run) -> object:
        await server.keep()
        try:
            await body(run)
        finally:
            await server.take_over()
        return None

    await advance(durable, first, delivery)
    assert await durable.checkpointer.load("w") == {} and await is_queued(durable)


async def test_a_claim_that_is_not_there_is_no_reason_to_forget_the_workflow(
    durable: Any, redis: Redis
) -> None:
    """An earlier pass is all that the server that took over knows of."""
    server = Server(redis, durable.checkpointer)
    body = Body(server, waits)
    body.over = True
    await durable.scheduler.make_ready("w")
    await advance(durable, body, await next_delivery(durable))
    await server.keep()

    async def second(run: Run) -> object:
        await run.awaiting("go", same)
        await body.step(run, "c")
        await server.take_over()
        return "done"

    await durable.arrive("w", "go", 1)
    await server.keep()
    assert await advance(durable, second, await next_delivery(durable)) == Completed("done")
    assert list(await durable.checkpointer.load("w")) == ["a", "b", "go"]

    async def third(run: Run) -> object:
        await body.step(run, "c")
        return "done"

    assert await advance(durable, third, await next_delivery(durable)) == Completed("done")
    assert body.ran == ["a", "b", "c", "c"] and not await is_queued(durable)


async def test_one_of_which_nothing_is_left_is_parked(durable: Any, redis: Redis) -> None:
    server = Server(redis, durable.checkpointer)

    async def body(run: Run) -> object:
        await Body(server, completes).step(run, "a")
        await redis.delete(durable.checkpointer.hash_key("w"), durable.checkpointer.pass_key("w"))
        return "done"

    await durable.scheduler.make_ready("w")
    await advance(durable, body, await next_delivery(durable))
    ran: list[str] = []

    async def never(run: Run) -> object:
        ran.append(run.workflow)
        return None

    with pytest.raises(Exception, match="0 of 1"):
        await advance(durable, never, await next_delivery(durable))
    parked = await durable.scheduler.parked()
    assert "0 of 1" in json.loads(parked["w"])["reason"] and not ran and not await is_queued(durable)


@pytest.mark.parametrize("goes", ["cancelled", "deleted"])
async def test_what_was_called_off_meanwhile_stays_so(durable: Any, redis: Redis, goes: str) -> None:
    async def ends(run: Run) -> object:
        if goes == "cancelled":
            await durable.scheduler.cancel("w")
        else:
            await durable.delete("w")
        return "done"

    body = Body(Server(redis, durable.checkpointer), ends)
    await durable.scheduler.make_ready("w")
    await advance(durable, body, await next_delivery(durable))
    assert not await is_queued(durable) and body.ran == ["a", "b"]


async def test_a_wakeup_that_could_not_be_asked_for_is_the_sweeps(
    durable: Any, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(workflow: str, since: int) -> Any:
        raise ConnectionError("no")

    monkeypatch.setattr(type(durable.scheduler), "asking_again", lambda self, *given: refuses(*given))
    body = Body(Server(redis, durable.checkpointer), completes)
    await durable.scheduler.make_ready("w")
    assert await advance(durable, body, await next_delivery(durable)) == Completed("done")
    assert not await is_queued(durable)

    async def swept() -> bool:
        return "w" in (await sweep(durable, settled=ms(1))).woken

    # a record's time, and the claim's last sign of life, must be past: it ends with the release
    await eventually(swept, describing="the sweep finds it")
    assert await advance(durable, body, await next_delivery(durable)) == Completed("done")
    assert list(await durable.checkpointer.load("w")) == ["a", "b"]


async def test_a_claim_given_back_twice_is_told_the_same(redis: Redis, namespace: str) -> None:
    store = RedisCheckpointer(redis, namespace)
    for lost in ("b", "everything"):
        holder = await claimed(store, "w")
        await store.record(holder, "a", 1)
        await store.record(holder, "b", 1)
        if lost == "b":
            await redis.hdel(store.hash_key("w"), "b")
        else:
            await redis.delete(store.hash_key("w"), store.pass_key("w"))
        for _ in range(2):
            assert await send(store.releasing(holder, Completed(1), 2)) is False
        state = await redis.hmget(store.pass_key("w"), "state", "until")
        assert state == ["runs", "0"]
        await redis.delete(store.hash_key("w"), store.pass_key("w"))
    holder = await claimed(store, "w")
    await store.record(holder, "a", 1)
    for _ in range(2):
        assert await send(store.releasing(holder, Completed(1), 1)) is True
