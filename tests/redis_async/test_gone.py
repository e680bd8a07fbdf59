"""Records that are gone are reported and parked, never run from the top in silence; and how long records are kept."""

from __future__ import annotations

import json
import logging
from datetime import timedelta
from typing import Any

import pytest
from durably.embedded import EmbeddedServer
from durably_redis_async import (
    Blocked,
    CheckpointGone,
    Completed,
    Delivery,
    MemoryCheckpointer,
    MemoryScheduler,
    RedisCheckpointer,
    RedisDurable,
    RedisSetScheduler,
    RedisStreamScheduler,
    Run,
    Sleeping,
    SplitDurable,
    advance,
    claimed,
    now_utc,
    resume,
    work,
)
from durably_redis_async._client import is_cluster
from proxy import serving
from support import ms
from support_async import Event, Redis, Started, eventually, sleep
from support_async import client as connect


def pair(store: RedisCheckpointer, queue: Any) -> Any:
    """The two as one pair: what concerns both is one script, where there is one server."""
    return SplitDurable(store, queue) if is_cluster(store.redis) else RedisDurable(store, queue)


@pytest.fixture(params=["stream", "set"])
async def durable(request: pytest.FixtureRequest, redis: Redis, namespace: str) -> Any:
    """Each queue, with a lease of 200 ms."""
    queue: Any
    if request.param == "stream":
        queue = RedisStreamScheduler(redis, namespace, lease=ms(200))
    else:
        queue = RedisSetScheduler(redis, namespace, lease=ms(200), poll=ms(5))
    await queue.prepare()
    return pair(RedisCheckpointer(redis, namespace), queue)


NAP = ms(20)


class Body:
    """Does two steps, sleeps, and waits; counts how often the first step runs."""

    def __init__(self, nap: timedelta = NAP) -> None:
        self.ran = 0
        self.nap = nap

    async def __call__(self, run: Run) -> object:
        async def first() -> int:
            self.ran += 1
            return self.ran

        await run.step("a", first, int)
        await run.sleep("nap", self.nap)
        return await run.awaiting("go", int)


async def next_delivery(durable: Any) -> Delivery:
    async def look() -> Any:
        await durable.scheduler.wake_due()
        return await durable.scheduler.next_ready(ms(5))

    found: Delivery = await eventually(look, describing="a wakeup comes")
    return found


async def one_pass(durable: Any, body: Any) -> Any:
    return await advance(durable, body, await next_delivery(durable))


async def nothing_waits(durable: Any) -> bool:
    await durable.scheduler.wake_due()
    waiting = await durable.scheduler.next_ready(ms(5)), await durable.scheduler.reclaim(timedelta(0))
    return waiting == (None, None)


class TestGone:
    async def test_a_sleeper_whose_records_are_gone(
        self, durable: Any, redis: Redis, caplog: pytest.LogCaptureFixture
    ) -> None:
        body = Body()
        await durable.scheduler.make_ready("w")
        assert isinstance(await one_pass(durable, body), Sleeping)
        await redis.delete(durable.checkpointer.hash_key("w"))
        stop = Event()
        with caplog.at_level(logging.ERROR, "durably.worker"):
            working = Started(work, durable, body, stop=stop, tick=ms(10), within=ms(20))

            async def parked() -> Any:
                return await durable.scheduler.parked()

            found = await eventually(parked, describing="it is parked")
            stop.set()
            await working.result()
        assert list(found) == ["w"] and body.ran == 1
        said = json.loads(found["w"])
        assert "0 of 2" in said["reason"]
        assert abs(said["at"] / 1000 - now_utc().timestamp()) < 60
        assert [one for one in caplog.messages if "'w'" in one and "parked" in one]
        assert await nothing_waits(durable)

    async def test_a_blocked_one_that_gets_its_value_after_its_records_are_gone(
        self, durable: Any, redis: Redis
    ) -> None:
        body = Body(ms(1))
        await durable.scheduler.make_ready("w")
        outcome = None
        while not isinstance(outcome, Blocked):  # the nap may be over before its pass is
            outcome = await one_pass(durable, body)
        await redis.delete(durable.checkpointer.hash_key("w"))
        await durable.arrive("w", "go", 1)
        with pytest.raises(CheckpointGone, match="'w'.*1 of 3") as caught:
            await one_pass(durable, body)
        assert caught.value.workflow == "w" and body.ran == 1
        for claim in (durable.checkpointer.claim, lambda name: claimed(durable.checkpointer, name)):
            with pytest.raises(CheckpointGone):
                await claim("w")
        assert list(await durable.scheduler.parked()) == ["w"] and await nothing_waits(durable)

    async def test_as_many_that_come_as_are_gone_hide_nothing(self, durable: Any, redis: Redis) -> None:
        async def waits(run: Run) -> object:
            given = await run.input(int)
            return given, await run.awaiting("go", int)

        await durable.start("w", 1)
        assert isinstance(await one_pass(durable, waits), Blocked)
        await redis.delete(durable.checkpointer.hash_key("w"))
        await durable.arrive("w", "go", 1)
        await durable.deliver("w", "hi")
        with pytest.raises(CheckpointGone, match="2 of 3"):
            await one_pass(durable, waits)
        await durable.delete("w")
        await durable.start("w", 2)
        await durable.arrive("w", "go", 3)
        while not isinstance(outcome := await one_pass(durable, waits), Completed):
            pass
        assert outcome == Completed((2, 3))

    async def test_a_sleeper_of_which_nothing_at_all_is_known(self, durable: Any, redis: Redis) -> None:
        body = Body()
        await durable.scheduler.make_ready("w")
        await one_pass(durable, body)
        await redis.delete(durable.checkpointer.hash_key("w"), durable.checkpointer.pass_key("w"))
        with pytest.raises(CheckpointGone):
            await one_pass(durable, body)
        assert body.ran == 1 and list(await durable.scheduler.parked()) == ["w"]
        assert await redis.exists(durable.checkpointer.pass_key("w")) == 0

    async def test_one_whose_worker_died_in_its_pass(self, durable: Any, redis: Redis) -> None:
        holder = await claimed(durable.checkpointer, "w", alive=ms(10))
        await durable.checkpointer.record(holder, "a", 1)
        await redis.delete(durable.checkpointer.hash_key("w"))
        await sleep(0.02)
        with pytest.raises(CheckpointGone, match="0 of 1"):
            await durable.checkpointer.claim("w")

    async def test_expiry_itself_is_noticed(self, durable: Any, redis: Redis, namespace: str) -> None:
        short = pair(RedisCheckpointer(redis, namespace, ttl=ms(150)), durable.scheduler)
        body = Body()
        await short.scheduler.make_ready("w")
        await one_pass(short, body)

        async def expired() -> bool:
            return await redis.exists(short.checkpointer.hash_key("w")) == 0

        await eventually(expired, describing="nobody works, the records expire")
        assert await redis.exists(short.checkpointer.pass_key("w")) == 1
        with pytest.raises(CheckpointGone):
            await one_pass(short, body)

    async def test_it_may_begin_afresh(self, durable: Any, redis: Redis) -> None:
        body = Body()
        await durable.scheduler.make_ready("w")
        await one_pass(durable, body)
        await redis.delete(durable.checkpointer.hash_key("w"))
        with pytest.raises(CheckpointGone):
            await one_pass(durable, body)
        assert await durable.scheduler.unpark("w") and not await durable.scheduler.unpark("w")
        with pytest.raises(CheckpointGone):
            await one_pass(durable, body)
        await durable.delete("w")
        assert await durable.scheduler.parked() == {}
        await durable.arrive("w", "go", 5)
        await one_pass(durable, body)
        assert await one_pass(durable, body) == Completed(5) and body.ran == 2

    async def test_what_is_not_gone_runs(self, durable: Any, redis: Redis) -> None:
        async def at_once(run: Run) -> int:
            async def effect() -> int:
                return 1

            return await run.step("a", effect, int)

        for _ in range(2):  # the second time it has ended, and its records are gone: that is no loss
            await durable.scheduler.make_ready("w")
            assert await one_pass(durable, at_once) == Completed(1)
            await redis.delete(durable.checkpointer.hash_key("w"))
        other = await claimed(durable.checkpointer, "x", alive=ms(50))
        await durable.scheduler.make_ready("x")
        delivery = await next_delivery(durable)
        assert await advance(durable, at_once, delivery, contended=ms(20)) is None
        await sleep(0.06)  # its holder died and recorded nothing
        assert other and await one_pass(durable, at_once) == Completed(1)
        assert await durable.scheduler.parked() == {}

    async def test_park_and_unpark_are_said_again(
        self, durable: Any, server: EmbeddedServer, namespace: str
    ) -> None:
        with serving(server) as proxy:
            far = connect(proxy.url)
            queue: Any = type(durable.scheduler)(far, namespace)
            await queue.make_ready("w")
            for _ in range(2):  # the first time the script is not known
                delivery = await queue.next_ready(ms(200))
                assert delivery is not None
                proxy.swallow_next("evalsha")
                await queue.park(delivery, "no reason")
                assert json.loads((await queue.parked())["w"])["reason"] == "no reason"
                proxy.swallow_next("evalsha")
                assert await queue.unpark("w")
                assert await queue.parked() == {}
            delivery = await queue.next_ready(ms(200))
            assert delivery is not None and delivery.workflow == "w"
            await queue.done(delivery)
            assert await nothing_waits(durable)
            await far.aclose()

    async def test_a_delivery_that_is_lost_parks_nothing(self, durable: Any) -> None:
        await durable.scheduler.make_ready("w")
        delivery = await next_delivery(durable)
        await durable.scheduler.cancel("w")
        await durable.scheduler.done(delivery)
        await durable.scheduler.park(delivery, "late")
        assert await durable.scheduler.parked() == {}


async def test_the_memory_queue_parks_too() -> None:
    queue = MemoryScheduler()
    durable: SplitDurable[Any] = SplitDurable(MemoryCheckpointer(), queue)
    await queue.make_ready("w")
    delivery = await queue.next_ready(ms(5))
    assert delivery is not None
    with pytest.raises(CheckpointGone):
        await advance(durable, Body(), Delivery("w", delivery.receipt, slept=True))
    assert list(await queue.parked()) == ["w"]
    assert await queue.unpark("w") and not await queue.unpark("w")
    again = await queue.next_ready(ms(5))
    assert again is not None
    await queue.park(again, "why")
    await queue.cancel("w")
    assert await queue.parked() == {}


class TestHowLongRecordsAreKept:
    async def test_the_claims_key_outlives_the_records(self, redis: Redis, namespace: str) -> None:
        store = RedisCheckpointer(redis, namespace, ttl=ms(10_000), abandon_after=ms(30_000))

        async def blocked(run: Run) -> object:
            return await run.awaiting("go", int)

        async def sleeps(run: Run) -> None:
            await run.sleep("nap", ms(60_000))

        async def ends(run: Run) -> None:
            pass

        for n, body in enumerate((blocked, sleeps, ends, LookupError("no"), None)):
            await store.supply(f"w{n}", "a", 1)
            holder = await claimed(store, f"w{n}", ms(20_000), ms(5_000))
            await store.record(holder, "b", 1)
            for outcome in (None, body if not callable(body) else await resume(holder, store, body)):
                left = [await redis.pttl(key(f"w{n}")) for key in (store.hash_key, store.pass_key)]
                assert left[1] - left[0] > 9_900, (n, outcome, left)
                await store.release(holder, outcome)
            left = [await redis.pttl(key(f"w{n}")) for key in (store.hash_key, store.pass_key)]
            assert left[1] - left[0] > 9_900, (n, left)

    async def test_records_do_not_expire_under_a_live_claim(self, redis: Redis, namespace: str) -> None:
        store = RedisCheckpointer(redis, namespace, ttl=ms(50))
        holder = await claimed(store, "w", ms(5_000), ms(300))
        await store.record(holder, "a", 1)
        for _ in range(3):
            await sleep(0.2)
            assert await store.renew(holder, ms(300))
        assert await store.load("w") == {"a": 1}

    async def test_a_failed_one_is_kept_as_long_as_asked(self, redis: Redis, namespace: str) -> None:
        for ttl, keep, left in ((1_000, 60_000, 60_000), (20_000, None, 20_000)):
            kept = None if keep is None else ms(keep)
            store = RedisCheckpointer(redis, f"{namespace}{ttl}", ttl=ms(ttl), keep_failed=kept)
            await store.supply("w", "a", 1)
            holder = await claimed(store, "w", alive=ms(10))
            await store.release(holder, LookupError("no"))
            assert left - 1_000 < await redis.pttl(store.hash_key("w")) <= left + 10
            assert left + ttl - 1_000 < await redis.pttl(store.pass_key("w"))
            again = await claimed(store, "w", alive=ms(10))
            await store.release(again, Completed(None))
            assert await redis.pttl(store.hash_key("w")) <= ttl
        waits = RedisCheckpointer(redis, namespace, keep_failed=ms(30_000))
        for outcome, kept_for in ((Blocked(("go",)), None), (LookupError("no"), 30_000)):
            holder = await claimed(waits, "w", alive=ms(10))
            await waits.record(holder, "a", 1)
            await waits.release(holder, outcome)
            left = await redis.pttl(waits.hash_key("w"))
            assert left == -1 if kept_for is None else 29_000 < left <= kept_for
        with pytest.raises(ValueError, match="keep_failed"):
            RedisCheckpointer(redis, keep_failed=timedelta(0))

    async def test_ttl_may_change_on_a_running_fleet(self, redis: Redis, namespace: str) -> None:
        short = RedisCheckpointer(redis, namespace, ttl=ms(100))
        long = RedisCheckpointer(redis, namespace, ttl=ms(600_000))
        for first, second in ((short, long), (long, short)):
            name = f"w{first.ttl}"
            holder = await claimed(first, name, ms(600_000), ms(2_000))
            await first.record(holder, "a", 1)
            await second.supply(name, "b", 2)
            assert await second.renew(holder, ms(2_000)) and await first.renew(holder, ms(2_000))
            await sleep(0.3)
            assert await second.claim(name) is None, "no live claim is cut short"
            await second.append(name, "mail")
            await first.release(holder, Blocked(("go",)))
            for other in (second, first):
                await other.supply(name, f"from {other.ttl}", 1)
            await sleep(0.25)
            assert len(await first.load(name)) == 5, "no wait is cut short"
            holder = await claimed(second, name, ms(600_000), ms(10))
            await first.release(holder, Sleeping("nap", now_utc() + ms(1_000)))
            await second.supply(name, "d", 1)
            await sleep(0.4)
            assert await redis.pttl(second.hash_key(name)) > 400, "no sleep is cut short"
            holder = await claimed(first, name, ms(600_000), ms(10))
            await second.release(holder)
            assert await redis.pttl(second.hash_key(name)) > 90

    async def test_what_waits_for_its_first_pass_does_not_expire(self, durable: Any, redis: Redis) -> None:
        store = RedisCheckpointer(redis, durable.checkpointer.namespace, ttl=ms(400))
        one = pair(store, durable.scheduler)
        split: SplitDurable[Any] = SplitDurable(store, durable.scheduler)

        async def body(run: Run) -> object:
            given = await run.input(str)
            (message,) = await run.receive("read", limit=1)
            return given, message.value

        pairs: list[Any] = [one, split]
        for n, how in enumerate(pairs):
            name = f"w{n}"
            await how.deliver(name, "mail", once="m")
            await how.start(name, "in")
            await sleep(1.0)  # no worker for longer than ttl
            await how.deliver(name, "mail", once="m")
            while (delivery := await durable.scheduler.next_ready(ms(5))) is not None:
                assert await advance(one, body, delivery) == Completed(("in", "mail"))
        assert 0 < await redis.pttl(store.hash_key("w1")) <= 400
        assert 0 < await redis.pttl(store.pass_key("w1")) <= 800
        await store.supply("by hand", "a", 1)
        holder = await claimed(store, "by hand", ms(200), ms(50))
        assert 0 < await redis.pttl(store.hash_key("by hand")) <= 450
        await store.release(holder)
        await store.discard("by hand")
        await store.supply("by hand", "a", 2)
        await sleep(1.0)
        assert await store.load("by hand") == {"a": 2}

    @pytest.mark.parametrize("wait", ["sleep", "wait"])
    async def test_a_ttl_shorter_than_the_wait(self, durable: Any, redis: Redis, wait: str) -> None:
        store = RedisCheckpointer(redis, durable.checkpointer.namespace, ttl=timedelta(seconds=2))
        short = pair(store, durable.scheduler)

        async def body(run: Run) -> None:
            async def effect() -> str:
                return run.workflow

            await run.input(str)
            await run.step("a", effect, str)
            if wait == "sleep":
                await run.sleep("nap", timedelta(seconds=5))
            else:
                await run.awaiting("go", str)
            await run.step("result", effect, str)

        await short.start("w", "hello")
        stop = Event()
        working = Started(work, short, body, stop=stop, tick=ms(20), within=ms(50))
        await sleep(4.8)
        assert set(await store.load("w")) >= {"input", "a"}
        if wait == "wait":
            await sleep(0.3)
            await short.arrive("w", "go", "now")

        async def finished() -> bool:
            return "result" in await store.load("w")

        await eventually(finished, describing="it finishes", within=5)
        stop.set()
        await working.result()
        assert await short.scheduler.parked() == {}
