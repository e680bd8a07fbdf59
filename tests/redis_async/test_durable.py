"""A store and a queue side by side: what is written first, and what a failure between the two leaves."""

from __future__ import annotations

from typing import Any

import pytest
from durably.embedded import EmbeddedServer
from durably.keys import dropped_key, set_dropped_key
from durably_redis_async import (
    INPUT,
    Blocked,
    Completed,
    Fenced,
    MemoryCheckpointer,
    MemoryScheduler,
    MsgpackCodec,
    RedisCheckpointer,
    RedisDurable,
    RedisSetScheduler,
    RedisStreamScheduler,
    Run,
    SplitDurable,
    advance,
    claimed,
    passes,
    resume,
)
from support import ms
from support_async import Redis, together


class Watched:
    """Notes each call in `log`, and fails at the call named `fails`."""

    def __init__(self, of: Any, log: list[str], fails: str | None = None) -> None:
        self.of = of
        self.log = log
        self.fails = fails

    def __getattr__(self, name: str) -> Any:
        call = getattr(self.of, name)

        async def noted(*args: Any, **options: Any) -> Any:
            self.log.append(name)
            if name == self.fails:
                raise ConnectionError("gone")
            return await call(*args, **options)

        return noted


def pair(log: list[str], fails: str | None = None) -> SplitDurable[Any]:
    return SplitDurable(Watched(MemoryCheckpointer(), log, fails), Watched(MemoryScheduler(), log, fails))


async def test_a_value_is_recorded_before_its_wakeup_is_queued() -> None:
    log: list[str] = []
    durable = pair(log)
    assert await durable.arrive("w", "go", 1) == 1
    assert await durable.arrive("w", "go", 2) == 1
    assert (await durable.deliver("w", "hi")).value == "hi"
    assert log == ["supply", "make_ready", "supply", "make_ready", "append", "make_ready"]


async def test_a_start_records_its_input_before_it_queues_the_workflow() -> None:
    log: list[str] = []
    durable = pair(log)
    assert await durable.start("w", {"n": 1}) == {"n": 1}
    assert await durable.start("w", {"n": 2}) == {"n": 1}
    assert await durable.start("bare") is None
    assert await durable.start("named", 5, key="order") == 5
    assert await durable.checkpointer.load("w") == {INPUT: {"n": 1}}
    assert await durable.checkpointer.load("bare") == {INPUT: None}
    assert await durable.checkpointer.load("named") == {"order": 5}
    assert log[:4] == ["supply", "make_ready", "supply", "make_ready"]
    with pytest.raises(ValueError):
        await durable.start("w", 1, key="inbox:1")


async def test_a_deletion_cancels_before_it_discards() -> None:
    log: list[str] = []
    durable = pair(log)
    await durable.arrive("w", "go", 1)
    del log[:]
    assert await durable.delete("w") == 1
    assert log == ["cancel", "discard"]


async def test_what_cannot_be_recorded_wakes_nobody() -> None:
    log: list[str] = []
    durable = pair(log)
    with pytest.raises(TypeError):
        await durable.arrive("w", "go", object())
    with pytest.raises(ValueError):
        await durable.delete("")
    assert log == ["supply"]


async def test_a_wakeup_that_failed_is_made_good_by_sending_the_value_again() -> None:
    log: list[str] = []
    durable = pair(log, "make_ready")
    with pytest.raises(ConnectionError):
        await durable.arrive("w", "go", 1)
    scheduler: Any = durable.scheduler
    scheduler.fails = None
    assert await durable.arrive("w", "go", 2) == 1
    assert await durable.scheduler.next_ready(ms(20)) is not None


@pytest.fixture(params=["stream", "set"])
async def one(request: pytest.FixtureRequest, redis: Redis, namespace: str) -> RedisDurable:
    queue: Any = (RedisStreamScheduler if request.param == "stream" else RedisSetScheduler)(redis, namespace)
    await queue.prepare()
    return RedisDurable(RedisCheckpointer(redis, namespace), queue)


class TestOneCommit:
    """A value and its wakeup, or a deletion, in one script."""

    async def test_a_value_a_message_and_their_wakeups(self, one: RedisDurable) -> None:
        assert await one.arrive("w", "go", 1) == 1
        assert await one.arrive("w", "go", 2) == 1
        entry = await one.deliver("w", "hi")
        assert await one.checkpointer.load("w") == {"go": 1, entry.key: "hi"}
        delivery = await one.scheduler.next_ready(ms(50))
        assert delivery is not None and delivery.workflow == "w"

    async def test_a_start_and_what_the_body_reads(self, one: RedisDurable) -> None:
        assert await one.start("w", [1, 2]) == [1, 2]
        assert await one.start("w", [3]) == [1, 2]

        async def body(run: Run) -> int:
            return sum(await run.input(list))

        delivery = await one.scheduler.next_ready(ms(50))
        assert delivery is not None
        assert await advance(one, body, delivery) == Completed(3)
        waiting = await claimed(one.checkpointer, "not started")
        assert await resume(waiting, one.checkpointer, body) == Blocked((INPUT,))

    async def test_it_is_one_call(self, own_server: EmbeddedServer, namespace: str) -> None:
        client = Redis.from_url(own_server.url, decode_responses=True)
        queue = RedisSetScheduler(client, namespace)
        one = RedisDurable(RedisCheckpointer(client, namespace), queue)
        await one.arrive("w", "go", 0)
        before: Any = await client.info("commandstats")
        await one.start("w", 1, key="go")
        after: Any = await client.info("commandstats")
        assert after["cmdstat_evalsha"]["calls"] - before["cmdstat_evalsha"]["calls"] == 1
        await client.aclose()

    async def test_what_is_refused_wakes_nobody(self, one: RedisDurable, redis: Redis) -> None:
        with pytest.raises(TypeError):
            await one.arrive("w", "go", object())
        with pytest.raises(ValueError):
            await one.arrive("w", "", 1)
        await redis.set(one.checkpointer.hash_key("x"), "text")
        with pytest.raises(Exception, match="WRONGTYPE"):
            await one.arrive("x", "go", 1)
        assert await one.scheduler.next_ready(ms(5)) is None

    async def test_a_deletion_fences_cancels_and_counts(self, one: RedisDurable) -> None:
        await one.arrive("w", "go", 1)
        await one.deliver("w", "hi")
        await one.arrive("stays", "go", 1)
        holder = await claimed(one.checkpointer, "w")
        assert await one.delete("w") == 2
        with pytest.raises(Fenced):
            await one.checkpointer.record(holder, "a", 1)
        assert await one.checkpointer.load("w") == {}
        seen = []
        while (delivery := await one.scheduler.next_ready(ms(5))) is not None:
            seen.append(delivery.workflow)
            await one.scheduler.done(delivery)
        assert seen == ["stays"]
        assert await one.delete("never there") == 0
        queue = one.checkpointer.redis
        for key in (dropped_key(one.checkpointer.namespace), set_dropped_key(one.checkpointer.namespace)):
            assert not await queue.exists(key), "nothing is left to remember"

    async def test_a_deletion_that_died_after_its_step_begins_no_pass(self, one: RedisDurable) -> None:
        await one.arrive("w", "go", 1)
        delivery = await one.scheduler.next_ready(ms(50))
        assert delivery is not None
        from durably_redis_async._client import in_one_script, send

        mark = one.scheduler.cancelling("w")
        await send(in_one_script(mark, one.checkpointer.discarding("w")))
        ran: list[str] = []

        async def body(run: Run) -> None:
            ran.append(run.workflow)

        async def taken() -> Any:
            yield delivery

        await passes(one, body)(taken())
        assert ran == []

    async def test_many_at_once(self, one: RedisDurable) -> None:
        await together(*(lambda: one.deliver("w", "x") for _ in range(20)))
        assert len(await one.checkpointer.load("w")) == 20

    async def test_bytes_and_text_clients(self, server: EmbeddedServer, namespace: str) -> None:
        text = Redis.from_url(server.url, decode_responses=True)
        raw = Redis.from_url(server.url)
        for queue in (RedisStreamScheduler(text, namespace), RedisSetScheduler(text, namespace)):
            await queue.prepare()
            one = RedisDurable(RedisCheckpointer(raw, namespace, codec=MsgpackCodec()), queue)
            assert await one.arrive("w", "go", b"\xff") == b"\xff"
            assert (await one.deliver("w", b"\xfe")).value == b"\xfe"
            assert await one.delete("w") == 2
        await text.aclose()
        await raw.aclose()

    async def test_what_cannot_be_one_commit_is_refused(
        self, redis: Redis, server: EmbeddedServer, namespace: str
    ) -> None:
        store = RedisCheckpointer(redis, namespace)
        elsewhere = Redis.from_url(server.url.replace("/0", "/1"), decode_responses=True)
        with pytest.raises(ValueError, match="two databases"):
            RedisDurable(store, RedisStreamScheduler(elsewhere, namespace))
        with pytest.raises(TypeError, match="MemoryScheduler"):
            RedisDurable(store, MemoryScheduler())  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="MemoryCheckpointer"):
            RedisDurable(MemoryCheckpointer(), RedisStreamScheduler(redis))  # type: ignore[arg-type]
        await elsewhere.aclose()
