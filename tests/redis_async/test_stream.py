"""The stream scheduler's own ground: foreign entries, a group that went, long backlogs, trimming."""

from __future__ import annotations

from typing import Any

import pytest
from durably.queue_scripts import read_entries
from durably_redis_async import Delivery, RedisStreamScheduler
from redis.exceptions import ResponseError
from support import ms
from support_async import Redis, sleep


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


async def test_cancel_reads_a_backlog_page_by_page(redis: Redis, namespace: str) -> None:
    queue = RedisStreamScheduler(redis, namespace, scan=3)
    await queue.prepare()
    for n in range(20):
        await queue.make_ready(f"w{n % 4}")
    await queue.cancel("w2")
    seen = []
    while (delivery := await queue.next_ready(ms(5))) is not None:
        seen.append(delivery.workflow)
    assert sorted(set(seen)) == ["w0", "w1", "w3"]
    assert len(seen) == 15


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
