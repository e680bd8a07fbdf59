"""The stream scheduler's own ground: foreign entries, a group that went, long backlogs, trimming."""

from __future__ import annotations

from typing import Any

import pytest
from durably.embedded import EmbeddedServer
from durably.queue_scripts import read_entries
from durably_redis_async import Delivery, RedisStreamScheduler
from durably_redis_async._client import send
from redis.exceptions import ResponseError
from support import ms
from support_async import Redis, sleep
from support_async import client as connect


@pytest.fixture
async def queue(redis: Redis, namespace: str) -> RedisStreamScheduler:
    made = RedisStreamScheduler(redis, namespace)
    await made.prepare()
    return made


async def test_an_entry_of_another_kind_is_answered_for_and_passed_over(
    redis: Redis, queue: RedisStreamScheduler
) -> None:
    await redis.xadd(queue.ready_key, {"other": "thing"})
    await queue.make_ready("w")
    delivery = await queue.next_ready(ms(2_000))
    assert delivery is not None and delivery.workflow == "w"
    pending: Any = await redis.xpending(queue.ready_key, queue.group)
    assert pending["pending"] == 1


async def test_a_group_that_went_comes_back_for_each_call(redis: Redis, queue: RedisStreamScheduler) -> None:
    for _ in range(2):
        await redis.delete(queue.ready_key)
        assert await queue.reclaim(ms(0)) is None
        await redis.delete(queue.ready_key)
        assert await queue.extend(Delivery("w", "1-1"), ms(10)) == Delivery("w", "1-1")
        await queue.done(Delivery("w", "1-1"))
        assert await queue.next_ready(ms(10)) is None
        await queue.make_ready("w")
        assert await queue.next_ready(ms(10)) is not None


async def test_the_servers_own_errors_reach_the_caller(redis: Redis, queue: RedisStreamScheduler) -> None:
    await redis.delete(queue.ready_key)
    await redis.set(queue.ready_key, "text")
    calls: list[Any] = [
        queue.prepare,
        lambda: queue.make_ready("w"),
        lambda: queue.next_ready(ms(10)),
        lambda: queue.reclaim(ms(0)),
        lambda: queue.done(Delivery("w", "1-1")),
        queue.trim,
    ]
    for call in calls:
        with pytest.raises(ResponseError, match="WRONGTYPE"):
            await call()


@pytest.mark.parametrize("options", [{"batch": 0}, {"scan": True}, {"group": ""}, {"consumer": 5}], ids=repr)
async def test_what_does_not_fit_is_refused(redis: Redis, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        RedisStreamScheduler(redis, **options)


async def backlog(redis: Redis, queue: RedisStreamScheduler, count: int, of: int) -> None:
    pipe = redis.pipeline(transaction=False)
    for n in range(count):
        pipe.xadd(queue.ready_key, {"workflow": f"w{n % of}"})
    await pipe.execute()


async def marks(redis: Redis, queue: RedisStreamScheduler) -> set[str]:
    return {str(one) for one in await redis.hkeys(queue.marks_key)}


async def seen(queue: RedisStreamScheduler) -> list[str]:
    found = []
    while (delivery := await queue.next_ready(ms(5))) is not None:
        found.append(delivery.workflow)
        await queue.done(delivery)
    return found


@pytest.mark.parametrize("scan", [3, 20], ids=["long", "short"])
async def test_what_is_cancelled_is_yielded_to_no_group(redis: Redis, namespace: str, scan: int) -> None:
    queue = RedisStreamScheduler(redis, namespace, scan=scan)
    other = RedisStreamScheduler(redis, namespace, group="others")
    for one in (queue, other):
        await one.prepare()
    await backlog(redis, queue, 20, 4)
    await queue.cancel("w2")
    assert await marks(redis, queue) == ({"w2"} if scan < 20 else set())
    for one in (queue, other):
        found = await seen(one)
        assert sorted(set(found)) == ["w0", "w1", "w3"] and len(found) == 15
    assert await queue.trim() == 15
    assert not await marks(redis, queue)
    await queue.make_ready("w2")
    assert await seen(queue) == ["w2"]


async def test_cancel_is_one_call_that_reads_no_long_backlog(own_server: EmbeddedServer) -> None:
    client = connect(own_server.url)
    queue = RedisStreamScheduler(client)
    await queue.prepare()
    await backlog(client, queue, 2_000, 500)
    await queue.cancel("w1")
    await client.config_resetstat()
    await queue.cancel("w7")
    stats: Any = await client.info("commandstats")
    called = {name.removeprefix("cmdstat_"): one["calls"] for name, one in stats.items()}
    assert called["evalsha"] == 1 and "xrange" not in called and "xdel" not in called
    found = await queue.next_several(ms(50), 500)
    assert len(found) == 498 and not {"w1", "w7"} & {one.workflow for one in found}
    await client.aclose()


async def test_cancelled_entries_by_the_thousand_are_passed_over_at_once(
    redis: Redis, queue: RedisStreamScheduler
) -> None:
    await backlog(redis, queue, 6_000, 1)
    await queue.make_ready("here")
    await queue.cancel("w0")
    await queue.make_ready("there")
    assert [one.workflow for one in await queue.next_several(ms(5), 1)] == ["here"]
    assert [one.workflow for one in await queue.take_now(5)] == ["there"]
    assert await redis.xlen(queue.ready_key) == 2


async def test_a_cancellation_that_is_sent_twice_leaves_alone_what_came_in_between(
    redis: Redis, namespace: str
) -> None:
    queue = RedisStreamScheduler(redis, namespace, scan=1)
    await queue.prepare()
    await backlog(redis, queue, 5, 1)
    cancel = queue.cancelling("w0")
    await send(cancel)
    await queue.make_ready("w0")
    await send(cancel)
    assert await seen(queue) == ["w0"]


async def test_housekeeping_deletes_what_is_cancelled_before_anybody_reads_it(
    redis: Redis, namespace: str
) -> None:
    queue = RedisStreamScheduler(redis, namespace, scan=7)
    await queue.prepare()
    await backlog(redis, queue, 40, 4)
    await queue.cancel("w1")
    await queue.make_ready("w1")
    await queue.cancel("w2")
    await queue.make_ready("w0")
    assert await queue.trim() == 20
    assert not await marks(redis, queue), "the sweep has seen to it"
    left: Any = await redis.xrange(queue.ready_key)
    assert [fields["workflow"] for _, fields in left].count("w1") == 1
    assert sorted(set(await seen(queue))) == ["w0", "w1", "w3"]


async def test_a_mark_that_is_put_there_during_a_sweep_outlives_it(redis: Redis, namespace: str) -> None:
    queue = RedisStreamScheduler(redis, namespace, scan=2)
    await queue.prepare()
    await backlog(redis, queue, 6, 3)
    await queue.cancel("w0")
    keys = [queue.ready_key, queue.marks_key]
    last, upto, deleted = await queue.sweeper(keys, ["", "", 2])
    assert deleted == 1
    await queue.cancel("w1")
    while last:
        last, upto, deleted = await queue.sweeper(keys, [last, upto, 2])
    assert await queue.unmarker(keys, [upto, "0", 10]) == "0"
    assert await marks(redis, queue) == {"w1"}, "its first entry was passed before"
    assert await seen(queue) == ["w2"] * 2


async def test_cancel_leaves_its_mark_though_no_memory_is_left(own_server: EmbeddedServer) -> None:
    client = connect(own_server.url)
    queue = RedisStreamScheduler(client, scan=1)
    await queue.prepare()
    await backlog(client, queue, 6, 2)
    await client.script_load(queue.mark_cancelled.source)
    await client.config_set("maxmemory-policy", "noeviction")
    await client.config_set("maxmemory", 1)
    await queue.cancel("w1")
    await client.config_set("maxmemory", 0)
    assert await seen(queue) == ["w0"] * 3
    await client.aclose()


async def test_reclaim_passes_over_what_was_cancelled(redis: Redis, queue: RedisStreamScheduler) -> None:
    for n in range(5):
        await queue.make_ready("gone")
        assert await queue.next_ready(ms(5)) is not None, n
    await queue.make_ready("here")
    assert await queue.next_ready(ms(5)) is not None
    await queue.cancel("gone")
    found = [await queue.reclaim(ms(0)) for _ in range(4)]
    assert {one.workflow for one in found if one is not None} == {"here"}


class TestTrim:
    """Only what every group has read and answered for."""

    async def lengths(self, redis: Redis, queue: RedisStreamScheduler) -> int:
        return int(await redis.xlen(queue.ready_key))

    async def test_nothing_unread_nor_pending_goes(self, redis: Redis, queue: RedisStreamScheduler) -> None:
        for n in range(10):
            await queue.make_ready(f"w{n}")
        taken = [await queue.next_ready(ms(5)) for _ in range(6)]
        assert await queue.trim() == 0
        for delivery in taken[:4]:
            assert delivery is not None
            await queue.done(delivery)
        assert await queue.trim() == 4
        assert await self.lengths(redis, queue) == 6
        assert await queue.trim() == 0

    async def test_what_another_group_still_needs_stays(
        self, redis: Redis, queue: RedisStreamScheduler, namespace: str
    ) -> None:
        other = RedisStreamScheduler(redis, namespace, group="others")
        await other.prepare()
        for n in range(6):
            await queue.make_ready(f"w{n}")
        for _ in range(6):
            delivery = await queue.next_ready(ms(5))
            assert delivery is not None
            await queue.done(delivery)
        assert await queue.trim() == 0
        for _ in range(2):
            delivery = await other.next_ready(ms(5))
            assert delivery is not None
            await other.done(delivery)
        assert await queue.trim() == 2

    async def test_without_a_group_nothing_goes(self, redis: Redis, namespace: str) -> None:
        queue = RedisStreamScheduler(redis, namespace)
        assert await queue.trim() == 0
        await queue.make_ready("w")
        assert await queue.trim() == 0
        await queue.prepare()
        assert await queue.next_ready(ms(20)) is not None

    async def test_a_cancelled_workflows_pending_entry_holds_nothing_back(
        self, redis: Redis, queue: RedisStreamScheduler
    ) -> None:
        await queue.make_ready("gone")
        assert await queue.next_ready(ms(5)) is not None
        await queue.cancel("gone")
        for n in range(3):
            await queue.make_ready(f"w{n}")
            delivery = await queue.next_ready(ms(5))
            assert delivery is not None
            await queue.done(delivery)
        assert await queue.trim() == 3
        assert await self.lengths(redis, queue) == 0

    async def test_a_long_backlog_goes_in_calls_that_hold_the_server_shortly(
        self, redis: Redis, queue: RedisStreamScheduler
    ) -> None:
        pipe = redis.pipeline(transaction=False)
        for n in range(20_000):
            pipe.xadd(queue.ready_key, {"workflow": f"w{n}"})
        await pipe.execute()
        reply: Any = await redis.xreadgroup(queue.group, queue.consumer, {queue.ready_key: ">"}, count=20_000)
        await redis.xack(queue.ready_key, queue.group, *(one for one, _ in read_entries(reply)))
        before = await _calls(redis)
        assert await queue.trim() == 20_000
        assert await _calls(redis) - before > 5, "one call did it all"


async def _calls(redis: Redis) -> int:
    stats: Any = await redis.info("commandstats")
    return sum(int(stats.get(f"cmdstat_{name}", {}).get("calls", 0)) for name in ("evalsha", "eval"))


async def test_a_sleeper_that_cannot_be_queued_is_still_a_sleeper(
    redis: Redis, queue: RedisStreamScheduler
) -> None:
    await redis.zadd(queue.sleeping_key, {"w": 1.0})
    await redis.delete(queue.ready_key)
    await redis.set(queue.ready_key, "text")
    with pytest.raises(ResponseError, match="WRONGTYPE"):
        await queue.wake_due()
    assert await redis.zscore(queue.sleeping_key, "w") == 1.0


async def test_an_abandoned_delivery_among_thousands_is_found_in_a_few_calls(
    redis: Redis, namespace: str
) -> None:
    queue = RedisStreamScheduler(redis, namespace)
    await queue.prepare()
    pipe = redis.pipeline(transaction=False)
    for n in range(3_000):
        pipe.xadd(queue.ready_key, {"workflow": f"w{n}"})
    await pipe.execute()
    await redis.xreadgroup(queue.group, "another", {queue.ready_key: ">"}, count=3_000)
    entries: Any = await redis.xrange(queue.ready_key, count=3_000)
    abandoned, _ = entries[2_500]
    await redis.xclaim(queue.ready_key, queue.group, "gone", 0, [abandoned], idle=3_600_000)
    found = [await queue.reclaim(ms(600_000)) for _ in range(8)]
    assert [one.receipt for one in found if one is not None] == [abandoned]


async def test_whether_a_delivery_stands(redis: Redis, queue: RedisStreamScheduler, namespace: str) -> None:
    other = RedisStreamScheduler(redis, namespace)

    async def stands(delivery: Any, of: RedisStreamScheduler = queue) -> bool:
        call = of.holding(delivery)
        return bool(call.answer(await redis.eval(str(call.source), *call.command[2:])))  # type: ignore[arg-type]

    await queue.make_ready("w")
    delivery = await queue.next_ready(ms(5))
    assert await stands(delivery)
    taken = await other.reclaim(ms(0))
    assert not await stands(delivery) and await stands(taken, other)
    await other.cancel("w")
    assert not await stands(taken, other)


async def test_a_cancelled_delivery_is_not_available(redis: Redis, namespace: str) -> None:
    queue = RedisStreamScheduler(redis, namespace, lease=ms(20))
    await queue.prepare()
    for name in ("gone", "here"):
        await queue.make_ready(name)
        assert await queue.next_ready(ms(5)) is not None
    await queue.cancel("gone")
    await sleep(0.05)
    assert await queue.available(10) == 1
