"""The sweep: what a process that died between two writes, or a queue that lost data, leaves behind is mended."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import pytest
from durably.embedded import EmbeddedServer
from durably.keys import bell_key, set_slept_key, sweep_lock_key
from durably.sweep_scripts import LOOK, Look, look_keys, read_look
from durably_redis_async import (
    Blocked,
    Completed,
    MemoryCheckpointer,
    MemoryScheduler,
    RedisCheckpointer,
    RedisDurable,
    RedisSetScheduler,
    RedisStreamScheduler,
    Run,
    Sleeping,
    SplitDurable,
    Swept,
    advance,
    claimed,
    now_utc,
    sweep,
    sweeping,
    work,
)
from durably_redis_async._client import is_cluster, register, send
from durably_redis_async.resume import resume
from durably_redis_async.sweeper import _side
from proxy import serving
from support import ms
from support_async import Crashed, Event, Faults, Redis, Started, eventually, sleep, together
from support_async import client as connect

SOON = ms(1)


def pair(kind: str, redis: Redis, namespace: str, lease: float = 150) -> Any:
    store = RedisCheckpointer(redis, namespace)
    if kind == "stream":
        return SplitDurable(store, RedisStreamScheduler(redis, namespace, lease=ms(lease)))
    return SplitDurable(store, RedisSetScheduler(redis, namespace, lease=ms(lease), poll=ms(5)))


@pytest.fixture(params=["stream", "set"])
async def durable(request: pytest.FixtureRequest, redis: Redis, namespace: str) -> Any:
    """A store with each queue."""
    made = pair(request.param, redis, namespace)
    await made.scheduler.prepare()
    return made


async def once(durable: Any, **options: Any) -> Swept:
    """The sweep once around, after everything has settled: other tests' keys are in the database as well."""
    await sleep(0.005)
    swept: list[Swept] = []
    while not swept or swept[-1].cursor != "0":
        swept.append(await sweep(durable, **{"settled": SOON, **options}))
    names = ("woken", "asleep", "parked", "consumers")
    found: Any = {name: tuple(one for each in swept for one in getattr(each, name)) for name in names}
    return Swept(**found, looked=sum(one.looked for one in swept), cursor="0")


async def waits(run: Run) -> object:
    """Waits for its input, a value and a message; returns them."""
    given = await run.input(str)
    value = await run.awaiting("go", str)
    (message,) = await run.receive("read", limit=1)
    return [given, value, message.value]


async def naps(run: Run) -> str:
    await run.sleep("nap", ms(150))
    return "awake"


async def next_delivery(durable: Any, within: float = 0.5) -> Any:
    async def look() -> Any:
        await durable.scheduler.wake_due()
        return await durable.scheduler.reclaim(durable.scheduler.lease) or (
            await durable.scheduler.next_ready(ms(5))
        )

    try:
        return await eventually(look, describing="a wakeup comes", within=within)
    except AssertionError:
        return None


async def worked(durable: Any, body: Any, within: float = 0.3) -> list[Any]:
    """What passes come to, one after the other, until no wakeup comes `within` seconds."""
    outcomes = []
    while (delivery := await next_delivery(durable, within)) is not None:
        outcomes.append(await advance(durable, body, delivery, contended=ms(20)))
    return outcomes


def queue_key(durable: Any) -> str:
    """Where the queue keeps who sleeps."""
    queue = durable.scheduler
    return str(queue.sleeping_key if isinstance(queue, RedisStreamScheduler) else queue.schedule_key)


async def lose_wakeups(durable: Any) -> None:
    """What the queue holds is lost."""
    queue = durable.scheduler
    if isinstance(queue, RedisStreamScheduler):
        await queue.redis.delete(queue.sleeping_key)
        await queue.redis.xtrim(queue.ready_key, maxlen=0)
    else:
        await queue.redis.delete(queue.schedule_key)


class TestOfTwoWrites:
    """A process dies at each boundary of the calls that it makes; after one sweep nothing hangs."""

    @pytest.mark.parametrize("act", ["start", "arrive", "deliver"])
    async def test_a_value_without_its_wakeup(self, durable: Any, act: str) -> None:
        acts: dict[str, Any] = {
            "start": lambda to: to.start("w", "in"),
            "arrive": lambda to: to.arrive("w", "go", "value"),
            "deliver": lambda to: to.deliver("w", "mail"),
        }
        boundary, ended = 0, False
        while not ended:
            await durable.delete("w")
            for name, do in acts.items():
                if name != act:
                    await do(durable)
            await worked(durable, waits, 0.05)
            faults = Faults(boundary)
            dying: Any = SplitDurable(faults.over(durable.checkpointer), faults.over(durable.scheduler))
            try:
                await acts[act](dying)
                ended = True
            except Crashed:
                pass
            recorded = len(await durable.checkpointer.load("w"))
            swept = await once(durable)
            assert swept.woken == (() if boundary in (0, 3, 4) else ("w",)), (boundary, faults.passed)
            outcomes = await worked(durable, waits, 0.05)
            if boundary == 0:
                assert recorded == 2 and outcomes == []
            else:
                assert outcomes == [Completed(["in", "value", "mail"])], (boundary, faults.passed)
            boundary += 1
        assert boundary == 5

    async def test_a_deletion_that_was_begun(self, durable: Any) -> None:
        for boundary in range(5):
            await durable.start("w", "in")
            (delivery,) = [await next_delivery(durable)]
            assert isinstance(await advance(durable, naps, delivery), Sleeping)
            faults = Faults(boundary)
            dying: Any = SplitDurable(faults.over(durable.checkpointer), faults.over(durable.scheduler))
            try:
                await dying.delete("w")
            except Crashed:
                pass
            swept = await once(durable)
            assert (swept.woken, swept.asleep) == ((), ()), "cancelled stays cancelled"
            outcomes = await worked(durable, naps, 0.5)
            assert outcomes == ([Completed("awake")] if boundary == 0 else [])
            await durable.delete("w")
            assert await durable.checkpointer.load("w") == {}

    async def test_the_end_of_a_pass(self, durable: Any) -> None:
        async def body(run: Run) -> str:
            await run.input(str)
            await run.sleep("nap", ms(30))
            return await run.awaiting("go", str)

        boundary, ended = 0, False
        while not ended:
            await durable.delete("w")
            await durable.start("w", "in")
            await durable.arrive("w", "go", "value")
            faults = Faults(boundary)
            dying: Any = SplitDurable(faults.over(durable.checkpointer), faults.over(durable.scheduler))
            delivery = await next_delivery(durable)
            try:
                await advance(dying, body, delivery, budget=ms(60_000))
                ended = True
            except BaseException as error:  # the crash may come in a group
                assert "Crashed" in repr(error), error
            await sleep(0.2)
            await once(durable)
            outcomes = await worked(durable, body, 0.25)
            assert Completed("value") in outcomes or ended, (boundary, faults.passed, outcomes)
            boundary += 1
        assert boundary > 8


class TestWhatAQueueLost:
    async def test_a_deadline_is_put_back(self, durable: Any) -> None:
        await durable.start("w", "in")
        assert isinstance((await worked(durable, naps, 0.01))[0], Sleeping)
        assert (await once(durable)).asleep == ()
        await lose_wakeups(durable)
        swept = await once(durable)
        assert (swept.asleep, swept.woken) == (("w",), ())
        assert (await once(durable)).asleep == ()
        assert await worked(durable, naps, 0.3) == [Completed("awake")]

    async def test_a_deadline_that_has_passed_wakes(self, durable: Any) -> None:
        await durable.start("w", "in")
        await worked(durable, naps, 0.01)
        await lose_wakeups(durable)
        await sleep(0.2)
        swept = await once(durable)
        assert (swept.asleep, swept.woken) == ((), ("w",))
        assert await worked(durable, naps, 0.05) == [Completed("awake")]

    async def test_one_whose_worker_died_is_woken(self, durable: Any) -> None:
        holder = await claimed(durable.checkpointer, "w", alive=ms(10))
        await durable.checkpointer.record(holder, "a", 1)
        assert (await once(durable, settled=ms(300))).woken == ()
        await sleep(0.02)
        assert (await once(durable)).woken == ("w",)
        assert (await once(durable)).woken == (), "its wakeup waits to be taken"
        delivery = await next_delivery(durable)
        assert delivery is not None and (await once(durable)).woken == (), "its wakeup is out"

    async def test_a_live_pass_is_left_alone(self, durable: Any) -> None:
        holder = await claimed(durable.checkpointer, "w")
        await durable.checkpointer.record(holder, "a", 1)
        assert (await once(durable)).woken == ()


class TestNoFlood:
    async def test_a_blocked_workflow_with_nothing_new_is_never_woken(self, durable: Any) -> None:
        await durable.start("w", "in")
        assert isinstance((await worked(durable, waits, 0.01))[0], Blocked)
        for _ in range(3):
            swept = await once(durable)
            assert swept.looked == 1 and swept.woken == swept.asleep == swept.parked == ()
        assert await worked(durable, waits, 0.05) == []

    async def test_one_that_ended_or_failed_is_left_alone(self, durable: Any) -> None:
        for name, outcome in (("ended", Completed(1)), ("failed", LookupError("no"))):
            holder = await claimed(durable.checkpointer, name)
            await durable.checkpointer.record(holder, "a", 1)
            await durable.checkpointer.release(holder, outcome)
            await durable.checkpointer.supply(name, "b", 1)
        assert (await once(durable)).woken == ()

    async def test_one_of_which_nobody_said_what_it_waits_for_is_woken_once(self, durable: Any) -> None:
        await durable.checkpointer.supply("w", "a", 1)
        for expected in (("w",), (), ()):
            assert (await once(durable)).woken == expected
            while (delivery := await durable.scheduler.next_ready(ms(5))) is not None:
                await durable.scheduler.done(delivery)  # as a worker of another version does
        await durable.checkpointer.supply("w", "b", 1)
        assert (await once(durable)).woken == ("w",)

    async def test_what_came_while_the_pass_ran_is_new_to_it(self, durable: Any) -> None:
        async def body(run: Run) -> object:
            async def effect() -> int:
                await durable.checkpointer.supply("w", "go", "value")
                return 1

            await run.step("a", effect, int)
            return await run.awaiting("go", str)

        await durable.start("w", "in")
        assert await worked(durable, body, 0.01) == [Blocked(("go",))]
        assert (await once(durable)).woken == ("w",)
        assert await worked(durable, body, 0.01) == [Completed("value")]

    async def test_news_wake_a_sleeper_before_its_time(self, durable: Any) -> None:
        async def body(run: Run) -> str:
            if "go" not in run.recorded:
                await run.sleep("until", timedelta(hours=1))
            return "early"

        await durable.start("w", "in")
        await worked(durable, body, 0.01)
        await durable.checkpointer.supply("w", "go", 1)
        assert (await once(durable)).woken == ("w",)
        assert (await once(durable)).woken == ()
        assert await worked(durable, body, 0.05) == [Completed("early")]

    async def test_cancelled_stays_cancelled(self, durable: Any, redis: Redis) -> None:
        await durable.start("sleeps", "in")
        await worked(durable, naps, 0.01)
        await durable.start("waits", "in")
        await worked(durable, waits, 0.01)
        await durable.checkpointer.supply("waits", "go", "value")
        for name in ("sleeps", "waits"):
            await durable.scheduler.cancel(name)
        swept = await once(durable)
        assert (swept.woken, swept.asleep) == ((), ())
        await sleep(0.2)
        assert (await once(durable)).woken == ()
        await durable.checkpointer.append("waits", "mail")
        assert (await once(durable)).woken == ("waits",), "this one came after the cancellation"
        assert await worked(durable, waits, 0.05) == [Completed(["in", "value", "mail"])]
        names = await dropped(redis)
        assert set(names) >= {"sleeps"}
        for name in ("sleeps", "waits"):
            await durable.delete(name)
        await once(durable)
        assert await dropped(redis) == []


async def dropped(redis: Redis) -> list[str]:
    """The marks of cancellations in this test's database that its own namespace holds."""
    found: list[str] = []
    async for key in redis.scan_iter("*:dropped"):
        found += [str(one) for one in await redis.hkeys(key)]
    return [one for one in found if one in ("sleeps", "waits")]


async def test_sleepers_whose_records_are_gone_are_parked(durable: Any, redis: Redis) -> None:
    async def longer(run: Run) -> str:
        await run.sleep("nap", ms(900))
        return "awake"

    for name in ("half", "all", "there"):
        await durable.start(name, "in")
        await worked(durable, longer, 0.01)
    await redis.delete(durable.checkpointer.hash_key("half"), durable.checkpointer.hash_key("all"))
    await redis.delete(durable.checkpointer.pass_key("all"))
    await durable.scheduler.make_ready("never ran")
    swept = await once(durable)
    assert sorted(swept.parked) == ["all", "half"]
    assert sorted(await durable.scheduler.parked()) == ["all", "half"]
    assert (await once(durable)).parked == ()
    outcomes = await worked(durable, longer, 1.2)
    assert outcomes.count(Completed("awake")) == 2


async def test_many_sleepers_are_looked_at_in_parts(durable: Any, redis: Redis) -> None:
    names = [f"w{n}" for n in range(1200)]
    async with redis.pipeline(transaction=False) as pipe:
        for name in names:
            pipe.zadd(queue_key(durable), {name: 10**13})
            if isinstance(durable.scheduler, RedisSetScheduler):
                pipe.hset(set_slept_key(durable.scheduler.namespace), name, "1")
        await pipe.execute()
    parked: list[str] = []
    rounds, cursor = 0, ""
    while cursor != "0":
        swept = await sweep(durable, limit=100)
        assert len(swept.parked) <= 1000
        parked += swept.parked
        rounds, cursor = rounds + 1, swept.cursor
    assert sorted(parked) == sorted(names) and rounds >= 2
    assert sorted(await durable.scheduler.parked()) == sorted(names)


async def test_consumers_that_are_gone(redis: Redis, namespace: str) -> None:
    stays, gone = [
        RedisStreamScheduler(redis, namespace, lease=ms(20), consumer=name) for name in ("stays", "gone")
    ]
    await stays.prepare()
    durable: Any = SplitDurable(RedisCheckpointer(redis, namespace), stays)

    async def names() -> list[str]:
        told: Any = await redis.xinfo_consumers(stays.ready_key, stays.group)
        return sorted(one["name"] for one in told)

    await stays.next_ready(ms(2))
    await stays.make_ready("w")
    assert await gone.next_ready(ms(50)) is not None
    await sleep(0.05)
    assert (await once(durable)).consumers == (), "an hour by default"
    assert (await once(durable, consumers_idle=ms(20))).consumers == (), "it holds a delivery"
    delivery = await stays.reclaim(ms(20))
    assert delivery is not None and delivery.workflow == "w"
    await sleep(0.05)
    assert (await once(durable, consumers_idle=ms(20))).consumers == ("gone",)
    assert await names() == ["stays"], "one's own is kept"
    await gone.make_ready("x")
    assert await gone.next_ready(ms(50)) is not None, "one that comes back is there again"
    assert await names() == ["gone", "stays"]


async def test_two_sweepers_at_once(durable: Any) -> None:
    for n in range(30):
        await durable.start(f"w{n}", "in")
    await worked(durable, waits, 0.01)
    for n in range(30):
        await durable.checkpointer.supply(f"w{n}", "go", "value")
        await durable.checkpointer.append(f"w{n}", "mail")
    await sleep(0.005)
    swept = await together(*(lambda: once(durable) for _ in range(3)))
    assert {name for one in swept for name in one.woken} == {f"w{n}" for n in range(30)}
    outcomes = await worked(durable, waits, 0.05)
    assert outcomes.count(Completed(["in", "value", "mail"])) >= 30
    assert len(outcomes) <= 90
    assert (await once(durable)).woken == ()


@pytest.mark.parametrize("kind", ["stream", "set"])
async def test_passes_in_a_row_get_around_with_bounded_calls(
    own_server: EmbeddedServer, namespace: str, kind: str
) -> None:
    client = connect(own_server.url)
    durable = pair(kind, client, namespace)
    await durable.scheduler.prepare()
    async with client.pipeline(transaction=False) as pipe:
        for n in range(5000):
            pipe.hset(f"{namespace}:{{w{n}}}", "input", f"0:{n}:1")
            state: Any = {"state": "waits", "seen": 1, "token": n + 1}
            pipe.hset(f"{namespace}:{{w{n}}}:pass", mapping=state)
        await pipe.execute()
    broken = [f"w{n}" for n in range(0, 5000, 500)]
    for name in broken:
        await durable.checkpointer.supply(name, "go", 1)
    before: Any = await client.info("commandstats")
    await sleep(0.005)
    woken: list[str] = []
    looked, rounds, cursor = 0, 0, ""
    while cursor != "0":
        swept = await sweep(durable, settled=SOON)
        assert swept.looked <= 1500
        woken += swept.woken
        looked, rounds, cursor = looked + swept.looked, rounds + 1, swept.cursor
    assert sorted(woken) == sorted(broken)
    assert looked >= 5000 and rounds <= 12
    after: Any = await client.info("commandstats")

    def calls(name: str) -> int:
        counts = [stats.get(name, {"calls": 0})["calls"] for stats in (after, before)]
        return int(counts[0] - counts[1])

    assert calls("cmdstat_scan") <= 4 * rounds + 1
    assert calls("cmdstat_evalsha") + calls("cmdstat_eval") <= looked + 20 * rounds + 600
    assert calls("cmdstat_keys") == 0
    await client.aclose()


async def test_a_backlog_is_looked_through(durable: Any) -> None:
    await durable.start("held", "in")
    await durable.start("lost", "in")
    await worked(durable, waits, 0.01)
    for name in ("held", "lost"):
        await durable.checkpointer.supply(name, "go", "value")
    for n in range(1200):
        await durable.scheduler.make_ready(f"x{n}")
    await durable.scheduler.make_ready("held")
    assert (await once(durable)).woken == ("lost",)
    taken: set[str] = set()
    while (delivery := await durable.scheduler.next_ready(ms(5))) is not None:
        taken.add(delivery.workflow)  # pending now
        if isinstance(durable.scheduler, RedisSetScheduler) and len(taken) > 1100:
            break
    assert (await once(durable)).woken == ()


async def test_a_worker_sweeps_by_itself_one_at_a_time(durable: Any, redis: Redis) -> None:
    ended: list[str] = []

    async def body(run: Run) -> None:
        await run.sleep("nap", ms(1500))
        ended.append("awake")

    await durable.start("w", "in")
    await worked(durable, body, 0.01)
    await lose_wakeups(durable)
    home = durable.checkpointer.namespace
    if isinstance(durable.scheduler, RedisSetScheduler):
        home += ":schedule"
    await redis.set(sweep_lock_key(home), "another", px=400)
    stop = Event()
    options: Any = {"stop": stop, "tick": ms(10), "within": ms(20), "sweep_every": ms(30)}
    working = Started(work, durable, body, **options)
    await sleep(0.3)
    assert await durable.checkpointer.redis.exists(queue_key(durable)) == 0, "another holds the lock"

    async def awake() -> bool:
        return bool(ended)

    await eventually(awake, describing="the sweep puts the deadline back")
    stop.set()
    await working.result()


async def test_a_worker_told_not_to_sweeps_nothing(durable: Any) -> None:
    await durable.start("w", "in")
    await worked(durable, naps, 0.01)
    await lose_wakeups(durable)
    stop = Event()
    working = Started(work, durable, naps, stop=stop, tick=ms(10), within=ms(20), sweep_every=None)
    await sleep(0.3)
    stop.set()
    await working.result()
    assert (await once(durable)).woken == ("w",)


async def test_a_sink_of_events(durable: Any) -> None:
    await durable.start("w", "in")
    await worked(durable, naps, 0.01)
    await lose_wakeups(durable)

    async def events() -> Any:
        for _ in range(10):
            yield "now"

    await sweeping(durable)(events())
    assert await worked(durable, naps, 0.3) == [Completed("awake")]


async def test_what_cannot_be_swept_is_refused(durable: Any) -> None:
    memory: SplitDurable[Any] = SplitDurable(MemoryCheckpointer(), MemoryScheduler())
    with pytest.raises(TypeError, match="MemoryCheckpointer and MemoryScheduler"):
        await sweep(memory)
    with pytest.raises(TypeError):
        sweeping(memory)
    bad: Any = ({"limit": 0}, {"settled": timedelta(0)}, {"consumers_idle": timedelta(0)})
    for options in bad:
        with pytest.raises(ValueError):
            await sweep(durable, **options)


async def test_namespaces_and_keys_of_others_are_left_alone(redis: Redis, namespace: str) -> None:
    odd = pair("set", redis, namespace + "[a]*?")
    await odd.checkpointer.supply("w", "a", 1)
    other = pair("set", redis, namespace + "a")
    await other.checkpointer.supply("x", "a", 1)
    await redis.set(f"{namespace}a:{{text}}", "no hash")
    await redis.hset(f"{namespace}a:{{w}}:{{n}}", "no", "workflow")
    await redis.hset(f"{namespace}a:{{n}}", "no", "workflow")
    assert (await once(odd)).woken == ("w",)
    assert (await once(other)).woken == ("x",)
    waiting = await claimed(other.checkpointer, "x")
    assert isinstance(await resume(waiting, other.checkpointer, waits), Blocked)


async def test_what_a_sweep_says_is_said_again(
    durable: Any, server: EmbeddedServer, namespace: str, redis: Redis
) -> None:
    async def longer(run: Run) -> str:
        await run.sleep("nap", ms(60_000))
        return "awake"

    with serving(server) as proxy:
        client = connect(proxy.url)
        far = pair("stream" if queue_key(durable).endswith("sleeping") else "set", client, namespace)
        side: Any = _side(far)
        await durable.start("w", "in")
        await worked(durable, longer, 0.01)
        for kind in ("sleeping", "lost"):
            look = Look(kind, 2**43, 1, 2**43, 2**42)
            await send(side.mending("x", look))  # the server knows the script
            await durable.scheduler.cancel("x")
            before = proxy.swallowed
            proxy.swallow_next("evalsha")
            assert await send(side.mending("w2", look)) is True and proxy.swallowed == before + 1
            await durable.scheduler.cancel("w2")
        (cursor, page) = await side.sleepers("0")
        assert cursor == "0" and [one.workflow for one in page] == ["w"]
        assert await send(side.parking("w", "17", "no")) is False
        proxy.swallow_next("evalsha")
        assert await send(side.parking("w", page[0].said, "why")) is True
        assert list(await durable.scheduler.parked()) == ["w"]
        if side.queue is far.scheduler and isinstance(far.scheduler, RedisStreamScheduler):
            await redis.xgroup_createconsumer(far.scheduler.ready_key, far.scheduler.group, "gone")
            await side.consumers(timedelta(hours=1))
            await sleep(0.03)
            proxy.swallow_next("evalsha")
            assert "gone" in await side.consumers(ms(20))
        await client.aclose()


class TestCancellations:
    """What is cancelled behind a long backlog, where a mark stands for it, and while a sweep looks."""

    async def test_a_pass_that_a_cancellation_forestalled_asks_for_nothing(
        self, redis: Redis, namespace: str
    ) -> None:
        for kind in ("stream", "set"):
            durable = pair(kind, redis, namespace + kind)
            await durable.scheduler.prepare()
            await durable.start("w", "in")
            await worked(durable, naps, 0.01)
            await durable.scheduler.make_ready("w")
            delivery = await durable.scheduler.next_ready(ms(50))
            assert delivery is not None
            await durable.scheduler.cancel("w")
            await sleep(0.005)
            assert await advance(durable, naps, delivery) is None, "it was claimed, and given back"
            await sleep(0.2)
            for _ in range(2):
                swept = await once(durable)
                assert (swept.woken, swept.asleep) == ((), ()), "cancelled stays cancelled"
            await durable.checkpointer.supply("w", "go", 1)
            assert (await once(durable)).woken == ("w",), "this came after it"
            assert Completed("awake") in await worked(durable, naps, 0.2)

    async def test_what_a_mark_holds_back_is_no_wakeup(self, redis: Redis, namespace: str) -> None:
        for out in (False, True):
            queue = RedisStreamScheduler(redis, f"{namespace}{out}", lease=ms(60_000), scan=1)
            durable: Any = SplitDurable(RedisCheckpointer(redis, f"{namespace}{out}"), queue)
            await queue.prepare()
            await durable.start("w", "in")
            await worked(durable, waits, 0.01)
            for name in ("x", "w"):
                await queue.make_ready(name)
            if out:
                assert [one.workflow for one in await queue.take_now(2)] == ["x", "w"]
            await queue.cancel("w")
            assert await redis.hlen(queue.marks_key) == 1
            await sleep(0.005)
            await durable.checkpointer.supply("w", "go", "value")
            assert (await once(durable)).woken == ("w",)
            assert (await once(durable)).woken == (), "the new wakeup is there"

    async def test_one_that_was_cancelled_since_is_not_parked(self, redis: Redis, namespace: str) -> None:
        for scan in (1, 500):
            queue = RedisStreamScheduler(redis, f"{namespace}{scan}", lease=ms(60_000), scan=scan)
            await queue.prepare()
            for name in ("x", "w"):
                await queue.make_ready(name)
            await queue.next_ready(ms(50))
            delivery = await queue.next_ready(ms(50))
            assert delivery is not None and delivery.workflow == "w"
            await queue.cancel("w")
            await queue.park(delivery, "late")
            assert await queue.parked() == {}
            pending: Any = await redis.xpending(queue.ready_key, queue.group)
            assert pending["pending"] == 1

    async def test_a_deletion_while_a_sweep_looks(self, durable: Any, redis: Redis) -> None:
        if is_cluster(redis):
            whole: Any = durable
        else:
            whole = RedisDurable(durable.checkpointer, durable.scheduler)
        await once(durable)
        await durable.start("w", "in")
        await worked(durable, waits, 0.01)
        await durable.checkpointer.supply("w", "go", "value")
        await sleep(0.005)
        call = register(redis, LOOK).call(look_keys(durable.checkpointer.namespace, "w"), [1], read_look)
        look = await send(call)
        assert look.kind == "news"
        await whole.delete("w")
        assert await send(_side(durable).mending("w", look)) is False
        assert await durable.scheduler.next_ready(ms(5)) is None
        await sleep(0.005)
        await once(durable)
        assert (await _side(durable).cancelled("0"))[1] == [], "no note of it is left"


async def test_a_waiting_reader_is_rung(redis: Redis, namespace: str) -> None:
    queue = RedisSetScheduler(redis, namespace)
    durable: Any = SplitDurable(RedisCheckpointer(redis, namespace), queue)
    for name in ("mended", "parked"):
        await durable.checkpointer.supply(name, "a", 1)
    await queue.make_ready("parked")
    delivery = await queue.next_ready(ms(50))
    assert delivery is not None
    await queue.park(delivery, "why")
    await durable.checkpointer.release(await claimed(durable.checkpointer, "parked"), Completed(1))
    for name, act in (("parked", lambda: queue.unpark("parked")), ("mended", lambda: once(durable))):
        reading = Started(queue.next_ready, ms(5000))
        await sleep(0.2)
        assert await redis.exists(bell_key(namespace)) == 0
        began = time.monotonic()
        await act()
        taken = await reading.result()
        assert taken is not None and taken.workflow == name
        assert time.monotonic() - began < 0.5, "it looks by itself once a second"
        await queue.done(taken)


async def test_a_wakeup_out_of_a_sleep_says_so_however_it_is_taken(durable: Any) -> None:
    queue = durable.scheduler

    async def abandoned() -> Any:
        assert len(await queue.take_now(1)) == 1
        return await queue.reclaim(ms(0))

    takes: list[Any] = [lambda: queue.take_now(1), lambda: queue.next_several(ms(50), 1), abandoned]
    for take in takes:
        await queue.make_ready("w")
        delivery = await queue.next_ready(ms(50))
        assert delivery is not None and not delivery.slept
        await queue.wake_at(delivery, now_utc() - ms(5))
        await queue.wake_due()
        taken = await take()
        if taken is None:  # the set has nothing to take over by hand
            break
        (again,) = taken if isinstance(taken, list) else [taken]
        assert again.slept
        extended = await queue.extend(again, ms(100))
        assert extended.slept
        await queue.wake_at(extended, now_utc() - ms(5))
        await queue.wake_due()
        (last,) = await queue.take_now(1)
        assert last.slept
        await queue.done(last)
        assert await queue.available(10) == 0
