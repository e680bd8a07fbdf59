"""One pass by hand, and what a worker says to store and queue at once when things go wrong."""

from __future__ import annotations

from typing import Any

import pytest
from durably_redis_async import (
    Blocked,
    Completed,
    Delivery,
    Fenced,
    MemoryCheckpointer,
    MemoryScheduler,
    RedisCheckpointer,
    RedisSetScheduler,
    RedisStreamScheduler,
    Run,
    Sleeping,
    SplitDurable,
    Undecodable,
    advance,
    passes,
    resume,
    waking,
)
from durably_redis_async.together import Closing, close_pass, open_pass, renew_all
from support import ms, same
from support_async import Redis, eventually


@pytest.fixture(params=["memory", "stream", "set"])
async def durable(request: pytest.FixtureRequest, redis: Redis, namespace: str) -> SplitDurable[Any]:
    if request.param == "memory":
        return SplitDurable(MemoryCheckpointer(), MemoryScheduler(lease=ms(300)))
    queue: Any = (
        RedisStreamScheduler(redis, namespace, lease=ms(300))
        if request.param == "stream"
        else RedisSetScheduler(redis, namespace, lease=ms(300), poll=ms(10))
    )
    await queue.prepare()
    return SplitDurable(RedisCheckpointer(redis, namespace), queue)


async def one() -> int:
    return 1


async def body(run: Run) -> int:
    await run.step("a", one, int)
    await run.sleep("nap", ms(40))
    await run.awaiting("go", same)
    return await run.step("b", one, int)


async def delivered(durable: SplitDurable[Any]) -> Delivery:
    async def found() -> Delivery | None:
        await durable.scheduler.wake_due()
        return await durable.scheduler.next_ready(ms(10))

    delivery = await eventually(found, describing="a wakeup")
    assert delivery is not None
    return delivery


async def test_a_plain_loop_runs_a_workflow_pass_by_pass(durable: SplitDurable[Any]) -> None:
    await durable.scheduler.make_ready("w")
    assert isinstance(await advance(durable, body, await delivered(durable)), Sleeping)
    assert await advance(durable, body, await delivered(durable)) == Blocked(waiting=("go",))
    await durable.arrive("w", "go", 1)
    assert await advance(durable, body, await delivered(durable)) == Completed(1)
    assert await durable.scheduler.next_ready(ms(5)) is None
    assert await durable.scheduler.reclaim(ms(0)) is None


async def test_a_held_workflow_is_looked_at_again(durable: SplitDurable[Any]) -> None:
    holder = await durable.checkpointer.claim("w")
    assert holder is not None
    await durable.scheduler.make_ready("w")
    assert await advance(durable, body, await delivered(durable), contended=ms(20)) is None
    await durable.checkpointer.release(holder)
    assert (await delivered(durable)).workflow == "w"


async def test_a_failure_reaches_the_caller_and_leaves_the_delivery(durable: SplitDurable[Any]) -> None:
    async def fails(run: Run) -> None:
        raise LookupError("no")

    await durable.scheduler.make_ready("w")
    with pytest.raises(LookupError):
        await advance(durable, fails, await delivered(durable))
    assert await durable.checkpointer.claim("w") is not None

    async def again() -> Delivery | None:
        return await durable.scheduler.reclaim(ms(300)) or await durable.scheduler.next_ready(ms(5))

    assert await eventually(again, describing="the delivery is taken again")


async def test_a_lost_workflow_is_fenced(durable: SplitDurable[Any]) -> None:
    async def loses(run: Run) -> object:
        await durable.checkpointer.discard("w")
        return await run.step("a", one, int)

    await durable.scheduler.make_ready("w")
    with pytest.raises(Fenced):
        await advance(durable, loses, await delivered(durable))


async def test_a_pass_out_of_budget_is_fenced(durable: SplitDurable[Any]) -> None:
    from support_async import STOPPED, sleep

    async def slow(run: Run) -> object:
        try:
            await sleep(0.4)
        except STOPPED:
            pass
        return await run.step("a", one, int)

    await durable.scheduler.make_ready("w")
    with pytest.raises(Fenced):
        await advance(durable, slow, await delivered(durable), budget=ms(100))


async def test_a_stream_that_ends_ends_the_sink_with_its_passes(durable: SplitDurable[Any]) -> None:
    ended: list[str] = []

    async def ends(run: Run) -> None:
        await run.step("a", one, int)
        ended.append(run.workflow)

    async def deliveries() -> Any:
        for n in range(5):
            await durable.scheduler.make_ready(f"w{n}")
            yield await delivered(durable)

    await passes(durable, ends, 2)(deliveries())
    assert sorted(ended) == [f"w{n}" for n in range(5)]
    for bad in (0, True, 1.5):
        with pytest.raises(ValueError, match="limit"):
            passes(durable, ends, bad)  # type: ignore[arg-type]
    for option in ("lease", "budget", "contended", "grace"):
        options: Any = {option: ms(0)}
        with pytest.raises(ValueError, match=option):
            passes(durable, ends, **options)


async def test_waking_is_driven_by_moments(durable: SplitDurable[Any]) -> None:
    from durably_redis_async import now_utc

    async def moments() -> Any:
        yield now_utc() + ms(60_000)

    await durable.scheduler.make_ready("w")
    await durable.scheduler.wake_at(await delivered(durable), now_utc() + ms(30_000))
    await waking(durable.scheduler)(moments())
    if not isinstance(durable.scheduler, RedisSetScheduler):
        assert (await delivered(durable)).workflow == "w"


async def test_a_record_that_cannot_be_read_fails_the_pass_and_gives_the_claim_back(
    redis: Redis, namespace: str
) -> None:
    durable: SplitDurable[Any] = SplitDurable(
        RedisCheckpointer(redis, namespace), RedisStreamScheduler(redis, namespace)
    )
    await durable.scheduler.prepare()
    await redis.hset(f"{namespace}:{{w}}", "a", "nonsense")
    await durable.scheduler.make_ready("w")
    with pytest.raises(Undecodable, match="'a'"):
        await advance(durable, body, await delivered(durable))
    holder = await durable.checkpointer.claim("w")
    assert holder is not None
    with pytest.raises(Undecodable):
        await resume(holder, durable.checkpointer, body)


async def test_scripts_that_the_server_forgot_are_said_again_in_their_order(
    redis: Redis, namespace: str
) -> None:
    durable: SplitDurable[Any] = SplitDurable(
        RedisCheckpointer(redis, namespace), RedisSetScheduler(redis, namespace)
    )
    await durable.scheduler.make_ready("w")
    delivery = await delivered(durable)
    await redis.script_flush()
    opening = await open_pass(durable, delivery, ms(60_000), ms(60_000))
    assert opening.holder is not None and opening.stands and opening.failure is None
    await redis.script_flush()
    renewed = await renew_all(durable, [(opening.holder, delivery)], ms(60_000))
    assert isinstance(renewed[0], Delivery)
    await redis.script_flush()
    assert await close_pass(durable, opening.holder, renewed[0], None) == Closing(None, None)
    assert await durable.checkpointer.claim("w") is not None
    assert await redis.zcard(f"{namespace}:schedule") == 0


class Broken:
    """A store and a queue of which each call fails."""

    def __getattr__(self, name: str) -> Any:
        async def fails(*_: object) -> None:
            raise ConnectionError(name)

        return fails


async def test_what_goes_wrong_at_the_end_is_told_for_each_half(namespace: str) -> None:
    broken: Any = Broken()
    half = SplitDurable[Any](MemoryCheckpointer(), MemoryScheduler())
    holder = await half.checkpointer.claim("w")
    assert holder is not None
    with_store = SplitDurable[Any](MemoryCheckpointer(), broken)
    with_queue = SplitDurable[Any](broken, MemoryScheduler())
    delivery = Delivery("w", "1")
    from durably_redis_async import now_utc

    for when in (None, now_utc()):
        closing = await close_pass(with_store, holder, delivery, when)
        assert closing.not_released is None and isinstance(closing.not_answered, ConnectionError)
        closing = await close_pass(with_queue, holder, delivery, when)
        assert isinstance(closing.not_released, ConnectionError) and closing.not_answered is None
    assert isinstance((await renew_all(with_queue, [(holder, delivery)], ms(10)))[0], ConnectionError)
    assert (await renew_all(half, [(holder, delivery)], ms(10)))[0] == delivery
    await half.checkpointer.discard("w")
    assert (await renew_all(half, [(holder, delivery)], ms(10)))[0] is None
    with pytest.raises(ConnectionError):
        await open_pass(with_queue, delivery, ms(10), ms(10))


async def test_a_server_that_refuses_everything_is_told_for_each_half(redis: Redis, namespace: str) -> None:
    store, queue = RedisCheckpointer(redis, namespace), RedisStreamScheduler(redis, namespace)
    durable: SplitDurable[Any] = SplitDurable(store, queue)
    await queue.prepare()
    await queue.make_ready("w")
    delivery = await delivered(durable)
    opening = await open_pass(durable, delivery, ms(60_000), ms(60_000))
    assert opening.holder is not None
    await redis.set(store.pass_key("w"), "text")
    await redis.set(queue.ready_key, "text")
    renewed = await renew_all(durable, [(opening.holder, delivery)], ms(10))
    assert isinstance(renewed[0], Exception)
    closing = await close_pass(durable, opening.holder, delivery, None)
    assert closing.not_released is not None and closing.not_answered is not None
    with pytest.raises(Exception, match="WRONGTYPE"):
        await open_pass(durable, delivery, ms(10), ms(10))
