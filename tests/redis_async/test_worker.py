"""The worker: passes side by side, answers last, nothing lost."""

from __future__ import annotations

import time
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest
from durably.embedded import EmbeddedServer
from durably_redis_async import (
    LEASE,
    Fenced,
    MemoryCheckpointer,
    MemoryScheduler,
    Pass,
    RedisCheckpointer,
    RedisSetScheduler,
    RedisStreamScheduler,
    Run,
    SplitDurable,
    claimed,
    now_utc,
    passes,
    ticks,
    trimming,
    work,
)
from support import ms, same
from support_async import STOPPED, Event, Redis, Started, eventually, sleep, together, wait
from support_async import client as connect


@pytest.fixture(params=["memory", "stream", "set"])
def durable(request: pytest.FixtureRequest, redis: Redis, namespace: str) -> SplitDurable[Any]:
    """Each kind of store and queue, with a lease of 300 ms."""
    if request.param == "memory":
        return SplitDurable(MemoryCheckpointer(), MemoryScheduler(lease=ms(300)))
    store = RedisCheckpointer(redis, namespace)
    if request.param == "stream":
        return SplitDurable(store, RedisStreamScheduler(redis, namespace, lease=ms(300)))
    return SplitDurable(store, RedisSetScheduler(redis, namespace, lease=ms(300), poll=ms(10)))


class Working:
    """A worker for the length of a block."""

    def __init__(self, durable: SplitDurable[Any], body: Any, **options: Any) -> None:
        self.stop = Event()
        options = {"within": ms(50), "tick": ms(10), "contended": ms(30), **options}
        self.options = options
        self.durable = durable
        self.body = body

    async def __aenter__(self) -> Working:
        self.running = Started(work, self.durable, self.body, stop=self.stop, **self.options)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.stop.set()
        await self.running.result(10)


async def finished(ended: list[str], count: int) -> None:
    async def all_there() -> bool:
        return len(ended) >= count

    await eventually(all_there, describing=f"{count} workflows end")


async def test_workflows_sleep_wait_and_finish(durable: SplitDurable[Any]) -> None:
    ended: list[str] = []
    runs: dict[str, int] = {}

    async def body(run: Run) -> None:
        async def effect() -> str:
            runs[run.workflow] = runs.get(run.workflow, 0) + 1
            return run.workflow

        await run.step("a", effect, str)
        await run.sleep("nap", ms(40))
        assert await run.awaiting("go", same) == "yes"
        (message,) = await run.receive("inbox", limit=1)
        ended.append(f"{run.workflow}{message.value}")

    async def all_ended() -> bool:
        return len(set(ended)) == 12

    async with Working(durable, body):
        for n in range(12):
            await durable.scheduler.make_ready(f"w{n}")
        for n in range(12):
            await durable.arrive(f"w{n}", "go", "yes")
            await durable.deliver(f"w{n}", n)
        await eventually(all_ended, describing="twelve workflows end")
    assert set(ended) == {f"w{n}{n}" for n in range(12)}
    assert set(runs.values()) == {1}
    assert await durable.scheduler.reclaim(timedelta(0)) is None


async def test_no_more_than_limit_run_at_once(durable: SplitDurable[Any]) -> None:
    now = peak = 0
    ended: list[str] = []

    async def body(run: Run) -> None:
        nonlocal now, peak
        now += 1
        peak = max(peak, now)
        await sleep(0.02)
        now -= 1
        ended.append(run.workflow)

    for n in range(12):
        await durable.scheduler.make_ready(f"w{n}")
    async with Working(durable, body, limit=3):
        await finished(ended, 12)
    assert peak == 3


async def test_a_failing_workflow_is_taken_again_and_stops_nobody(durable: SplitDurable[Any]) -> None:
    tries = 0
    ended: list[str] = []

    class Own(BaseException):
        pass

    async def body(run: Run) -> None:
        nonlocal tries
        if run.workflow == "bad":
            tries += 1
            if tries == 1:
                raise LookupError("no")
            if tries == 2:
                raise Own
        ended.append(run.workflow)

    async with Working(durable, body):
        await durable.scheduler.make_ready("bad")
        await durable.scheduler.make_ready("good")
        await finished(ended, 2)
    assert sorted(ended) == ["bad", "good"] and tries == 3


async def test_a_step_of_several_leases_runs_once(durable: SplitDurable[Any]) -> None:
    runs = 0
    ended: list[str] = []

    async def body(run: Run) -> None:
        async def slow() -> None:
            nonlocal runs
            runs += 1
            await sleep(1.0)

        await run.step("slow", slow, same)
        ended.append(run.workflow)

    async with Working(durable, body), Working(durable, body):
        await durable.scheduler.make_ready("w")
        await finished(ended, 1)
        await sleep(0.4)
    assert runs == 1 and ended == ["w"]


async def test_a_pass_that_outlives_its_budget_is_ended_and_taken_again(durable: SplitDurable[Any]) -> None:
    tries = 0
    ended: list[str] = []
    gate = Event()

    async def body(run: Run) -> None:
        nonlocal tries
        tries += 1
        if tries == 1:
            await wait(gate, 30)
            return
        ended.append(run.workflow)

    async with Working(durable, body, budget=ms(200)):
        await durable.scheduler.make_ready("w")
        await finished(ended, 1)
        gate.set()
    assert tries == 2


async def test_within_lets_a_step_outlive_the_budget(durable: SplitDurable[Any]) -> None:
    runs = 0
    ended: list[str] = []

    async def body(run: Run) -> None:
        async def slow() -> None:
            nonlocal runs
            runs += 1
            await sleep(1.5)

        await run.step("slow", slow, same, within=timedelta(seconds=5))
        ended.append(run.workflow)

    async with Working(durable, body, budget=ms(1_000)):
        await durable.scheduler.make_ready("w")
        await finished(ended, 1)
    assert runs == 1


async def test_a_workflow_that_another_holds_is_looked_at_again(durable: SplitDurable[Any]) -> None:
    ended: list[str] = []

    async def body(run: Run) -> None:
        ended.append(run.workflow)

    holder = await durable.checkpointer.claim("w", ms(200), ms(200))
    assert holder is not None
    async with Working(durable, body):
        await durable.scheduler.make_ready("w")
        await sleep(0.1)
        assert ended == []
        await finished(ended, 1)


async def test_stop_lets_passes_end_and_pulls_no_more(durable: SplitDurable[Any]) -> None:
    ended: list[str] = []
    began = Event()

    async def body(run: Run) -> None:
        began.set()
        await sleep(0.2)
        ended.append(run.workflow)

    working = Working(durable, body)
    async with working:
        await durable.scheduler.make_ready("w")
        assert await wait(began, 5)
    assert ended == ["w"]
    await durable.scheduler.make_ready("later")
    await sleep(0.1)
    assert ended == ["w"]


async def test_a_lost_claim_ends_the_pass_before_its_next_step(durable: SplitDurable[Any]) -> None:
    wrote: list[str] = []
    began, gate = Event(), Event()

    async def body(run: Run) -> None:
        async def effect() -> None:
            wrote.append("b")

        began.set()
        try:
            await wait(gate, 5)
        except STOPPED:
            pass
        await run.step("b", effect, same)

    async with Working(durable, body):
        await durable.scheduler.make_ready("w")
        assert await wait(began, 5)
        await durable.delete("w")
        await sleep(0.4)
        gate.set()
    assert wrote == []
    assert await durable.checkpointer.load("w") == {}


async def test_the_loops_own_failure_ends_it_under_its_own_name() -> None:
    class Broken(MemoryScheduler):
        async def next_ready(self, within: timedelta) -> Any:
            raise ConnectionError("gone")

    async def body(run: Run) -> None:
        return None

    with pytest.raises(ConnectionError, match="gone"):
        await work(SplitDurable(MemoryCheckpointer(), Broken()), body)


async def test_one_failed_renewal_is_made_good_and_none_at_all_ends_the_pass_in_time() -> None:
    class Flaky(MemoryCheckpointer):
        failures = 1

        async def renew(self, holder: Pass, alive: timedelta = LEASE) -> bool:
            if self.failures > 0:
                self.failures -= 1
                raise ConnectionError("no")
            return await super().renew(holder, alive)

    async def once() -> int:
        return 1

    for failures, expected in ((1, 1), (10_000, 0)):
        store = Flaky()
        store.failures = failures
        durable: SplitDurable[Any] = SplitDurable(store, MemoryScheduler(lease=ms(300)))
        ended: list[object] = []

        async def body(run: Run, ended: list[object] = ended) -> None:
            await sleep(0.7)
            ended.append(await run.step("a", once, same))

        async with Working(durable, body):
            await durable.scheduler.make_ready("w")
            await sleep(0.85)
        assert len(ended) == expected


async def test_a_flushed_server_gets_its_group_back_and_nothing_spins(
    own_server: EmbeddedServer, namespace: str
) -> None:
    client = connect(own_server.url)
    durable: SplitDurable[Any] = SplitDurable(
        RedisCheckpointer(client, namespace), RedisStreamScheduler(client, namespace)
    )
    ended: list[str] = []

    async def body(run: Run) -> None:
        ended.append(run.workflow)

    async with Working(durable, body, within=ms(500), tick=ms(100)):
        wrecks: list[Any] = [client.flushall, lambda: client.delete(f"{{{namespace}}}:ready")]
        for n, wreck in enumerate(wrecks):
            await durable.scheduler.make_ready(f"before{n}")
            await finished(ended, 2 * n + 1)
            await wreck()
            before: Any = await client.info("commandstats")
            await sleep(0.5)
            after: Any = await client.info("commandstats")
            calls = [sum(one["calls"] for one in stats.values()) for stats in (before, after)]
            assert calls[1] - calls[0] < 60, "the worker spins"
            await durable.scheduler.make_ready(f"after{n}")
            await finished(ended, 2 * n + 2)
    await client.aclose()


@pytest.mark.parametrize("timeout", [0.1, 0.5, 5.0, None])
async def test_a_wait_is_as_long_as_asked_whatever_the_socket_timeout(
    server: EmbeddedServer, namespace: str, timeout: float | None
) -> None:
    client = connect(server.url, socket_timeout=timeout)
    queue = RedisStreamScheduler(client, namespace)
    await queue.prepare()
    started = time.monotonic()
    assert await queue.next_ready(ms(500)) is None
    assert 0.45 < time.monotonic() - started < 0.9
    await client.aclose()


async def test_a_worker_lives_on_when_its_connections_are_killed(
    server: EmbeddedServer, redis: Redis, namespace: str
) -> None:
    client = connect(server.url)
    durable: SplitDurable[Any] = SplitDurable(
        RedisCheckpointer(client, namespace), RedisStreamScheduler(client, namespace, lease=ms(300))
    )
    ended: list[str] = []

    async def body(run: Run) -> None:
        ended.append(run.workflow)

    async with Working(durable, body):
        for n in range(30):
            await durable.scheduler.make_ready(f"w{n}")
            await redis.client_kill_filter(_type="normal", skipme=True)
            await sleep(0.01)
        await finished(ended, 30)
    assert set(ended) == {f"w{n}" for n in range(30)}
    await client.aclose()


async def test_ten_thousand_sleepers_wake(redis: Redis, namespace: str) -> None:
    queue = RedisStreamScheduler(redis, namespace)
    await redis.zadd(queue.sleeping_key, {f"w{n}": 1.0 for n in range(10_000)})
    woken = await queue.wake_due(now_utc())
    assert len(woken) == len(set(woken)) == 10_000
    assert await redis.xlen(queue.ready_key) == 10_000


class TestTrimming:
    """What every group has answered for goes; nothing else does."""

    async def test_never_an_unread_or_pending_entry_and_never_without_a_group(
        self, redis: Redis, namespace: str
    ) -> None:
        queue = RedisStreamScheduler(redis, namespace)
        assert await queue.trim() == 0
        await queue.make_ready("early")
        assert await queue.trim() == 0
        await queue.prepare()
        for n in range(9):
            await queue.make_ready(f"w{n}")
        taken = [await queue.next_ready(ms(5)) for _ in range(6)]
        for one in (taken[0], taken[1], taken[2]):
            assert one is not None
            await queue.done(one)
        assert await queue.trim() == 3
        assert await redis.xlen(queue.ready_key) == 7
        for late in taken[3:]:
            assert late is not None
            await queue.done(late)
        await trimming(queue)(ticks_once())
        assert await redis.xlen(queue.ready_key) == 4
        assert len([one for one in [await queue.next_ready(ms(5)) for _ in range(5)] if one]) == 4

    async def test_the_slowest_group_decides(self, redis: Redis, namespace: str) -> None:
        fast = RedisStreamScheduler(redis, namespace)
        slow = RedisStreamScheduler(redis, namespace, group="slow")
        await fast.prepare()
        await slow.prepare()
        for n in range(4):
            await fast.make_ready(f"w{n}")
        while (one := await fast.next_ready(ms(5))) is not None:
            await fast.done(one)
        assert await fast.trim() == 0
        first = await slow.next_ready(ms(5))
        assert first is not None
        await slow.done(first)
        assert await fast.trim() == 1

    async def test_a_long_backlog_goes_in_bounded_calls(self, redis: Redis, namespace: str) -> None:
        queue = RedisStreamScheduler(redis, namespace)
        await queue.prepare()
        pipe = redis.pipeline(transaction=False)
        for n in range(5_000):
            pipe.xadd(queue.ready_key, {"workflow": f"w{n}"})
        await pipe.execute()
        raw: Any = redis
        got = await raw.execute_command(
            "XREADGROUP",
            "GROUP",
            queue.group,
            queue.consumer,
            "COUNT",
            4_500,
            "STREAMS",
            queue.ready_key,
            ">",
        )
        assert got
        ids = [
            row["message_id"]
            for row in await redis.xpending_range(queue.ready_key, queue.group, "-", "+", 4_500)
        ]
        await redis.xack(queue.ready_key, queue.group, *ids)
        assert await queue.trim() == 4_500
        assert await redis.xlen(queue.ready_key) == 500

    async def test_a_cancelled_delivery_holds_nothing_back(self, redis: Redis, namespace: str) -> None:
        queue = RedisStreamScheduler(redis, namespace)
        await queue.prepare()
        for name in ("gone", "done"):
            await queue.make_ready(name)
        first, second = await queue.next_ready(ms(5)), await queue.next_ready(ms(5))
        assert first is not None and second is not None
        await queue.cancel("gone")
        await queue.done(second)
        assert await queue.trim() == 1


async def ticks_once() -> Any:
    async for moment in ticks(ms(1)):
        yield moment
        return


async def test_a_wakeup_cancelled_before_its_pass_began_runs_nothing(redis: Redis, namespace: str) -> None:
    queues: list[Any] = [
        RedisStreamScheduler(redis, namespace, lease=ms(300)),
        RedisSetScheduler(redis, namespace, lease=ms(300), poll=ms(10)),
    ]
    for queue in queues:
        durable: SplitDurable[Any] = SplitDurable(RedisCheckpointer(redis, namespace), queue)
        ran: list[str] = []

        async def body(run: Run, ran: list[str] = ran) -> None:
            ran.append(run.workflow)

        async def gone(durable: SplitDurable[Any] = durable) -> Any:
            await durable.scheduler.prepare()
            for name in ("gone", "stays"):
                await durable.scheduler.make_ready(name)
                delivery = await durable.scheduler.next_ready(ms(50))
                assert delivery is not None
                if name == "gone":
                    await durable.delete(name)
                yield delivery

        await passes(durable, body)(gone())
        assert ran == ["stays"]
        assert await durable.checkpointer.claim("gone") is not None


async def test_a_worker_runs_nothing_that_was_cancelled_in_a_long_queue(redis: Redis, namespace: str) -> None:
    ended: list[str] = []
    gates: dict[str, Any] = {}

    async def body(run: Run) -> None:
        if run.workflow == "first":
            gates["began"].set()
            await wait(gates["go"], 5)
        ended.append(run.workflow)

    stores: list[Any] = [RedisCheckpointer(redis, namespace), MemoryCheckpointer()]
    for n, store in enumerate(stores):
        queue = RedisStreamScheduler(redis, f"{namespace}{n}", scan=1)
        durable: SplitDurable[Any] = SplitDurable(store, queue)
        gates["began"], gates["go"] = Event(), Event()
        del ended[:]
        async with Working(durable, body, limit=1):
            await queue.make_ready("first")
            assert await wait(gates["began"], 5)
            for m in range(30):
                await queue.make_ready("gone" if m % 3 else f"w{m}")
            await queue.cancel("gone")
            gates["go"].set()
            await finished(ended, 11)
            await queue.make_ready("gone")
            await finished(ended, 12)
        assert sorted(ended) == sorted([*(f"w{m}" for m in range(0, 30, 3)), "first", "gone"])
        pending: Any = await redis.xpending(queue.ready_key, queue.group)
        assert pending["pending"] == 0


async def test_a_drain_lets_the_write_under_way_end(redis: Redis, namespace: str) -> None:
    began = Event()

    class Slow(RedisCheckpointer):
        async def record(self, holder: Pass, key: str, value: object, **asked: Any) -> Any:
            began.set()
            await sleep(1.0)
            return await super().record(holder, key, value, **asked)

    durable: SplitDurable[Any] = SplitDurable(Slow(redis, namespace), RedisStreamScheduler(redis, namespace))

    async def effect() -> int:
        return 1

    async def body(run: Run) -> None:
        await run.step("a", effect, same)

    async with Working(durable, body, grace=ms(20)):
        await durable.scheduler.make_ready("w")
        assert await wait(began, 5)
    assert await durable.checkpointer.load("w") == {"a": 1}
    await durable.scheduler.wake_due()
    assert await durable.scheduler.next_ready(ms(50)) is not None


async def test_what_outlasts_the_grace_is_handed_on_at_once(durable: SplitDurable[Any]) -> None:
    began, gate = Event(), Event()
    ended: list[str] = []

    async def effect() -> int:
        return 1

    async def hangs(run: Run) -> None:
        began.set()
        try:
            await wait(gate, 20)
        except STOPPED:
            pass
        await run.step("late", effect, same)

    async def body(run: Run) -> None:
        ended.append(run.workflow)

    async with Working(durable, hangs, grace=ms(50)):
        await durable.scheduler.make_ready("w")
        assert await wait(began, 5)
    async with Working(durable, body):
        await finished(ended, 1)
        gate.set()
    assert await durable.checkpointer.load("w") == {}


async def test_a_body_that_leaves_the_process_fails_alone(durable: SplitDurable[Any]) -> None:
    ended: list[str] = []
    tries: list[str] = []

    async def body(run: Run) -> None:
        tries.append(run.workflow)
        if tries.count("bad") == 1 and run.workflow == "bad":
            raise SystemExit(3)
        ended.append(run.workflow)

    async with Working(durable, body):
        await durable.scheduler.make_ready("bad")
        await durable.scheduler.make_ready("good")
        await finished(ended, 2)
    assert sorted(ended) == ["bad", "good"]


async def test_a_plain_client_lives_through_lost_connections(
    server: EmbeddedServer, redis: Redis, namespace: str
) -> None:
    client = Redis.from_url(server.url, decode_responses=True)
    durable: SplitDurable[Any] = SplitDurable(
        RedisCheckpointer(client, namespace), RedisStreamScheduler(client, namespace, lease=ms(300))
    )
    ended: list[str] = []

    async def body(run: Run) -> None:
        ended.append(run.workflow)

    async with Working(durable, body):
        for n in range(20):
            await durable.scheduler.make_ready(f"w{n}")
            await redis.client_kill_filter(_type="normal", skipme=True)
            await sleep(0.01)
        await finished(ended, 20)
    await client.aclose()


@pytest.mark.parametrize("kind", ["stream", "set"])
async def test_due_is_what_the_servers_clock_says_however_wrong_the_workers_are(
    server: EmbeddedServer, namespace: str, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    ahead = timedelta(0)

    class Wrong(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return datetime.now(tz) + ahead

    monkeypatch.setattr("durably.values.datetime", Wrong)
    client = connect(server.url)
    store = RedisCheckpointer(client, namespace)
    queue: Any = (
        RedisStreamScheduler(client, namespace, lease=ms(300))
        if kind == "stream"
        else RedisSetScheduler(client, namespace, lease=ms(300), poll=ms(10))
    )
    durable: SplitDurable[Any] = SplitDurable(store, queue)
    passes_run: list[float] = []
    ended: list[float] = []

    async def body(run: Run) -> None:
        nonlocal ahead
        passes_run.append(time.monotonic())
        ahead = timedelta(hours=1) if len(passes_run) % 2 else timedelta(hours=-1)
        await run.sleep("nap", ms(400))
        ended.append(time.monotonic())

    for hours in (1, -1):
        ahead = timedelta(hours=hours)
        del passes_run[:], ended[:]
        async with Working(durable, body), Working(durable, body):
            await durable.scheduler.make_ready(f"w{hours}")

            async def done() -> bool:
                return bool(ended)

            await eventually(done, describing="the sleeper wakes")
        assert 0.35 < ended[0] - passes_run[0] < 1.5
        assert len(passes_run) == 2
    await client.aclose()


async def test_many_callers_share_round_trips_and_each_gets_its_own_answer(
    own_server: EmbeddedServer, namespace: str
) -> None:
    client = connect(own_server.url)
    store = RedisCheckpointer(client, namespace)
    holders = [await claimed(store, f"w{n}") for n in range(60)]

    async def act(holder: Pass) -> None:
        for n in range(5):
            recorded = await store.record(holder, f"s{n}", [holder.workflow, n])
            assert recorded.first and recorded.value == [holder.workflow, n]
            assert await store.supply(holder.workflow, f"s{n}", 0) == [holder.workflow, n]
        with pytest.raises(Fenced):
            await store.record(Pass(holder.workflow, holder.token - 1), "late", 1)

    killer = connect(own_server.url)

    async def disturb() -> None:
        for _ in range(8):
            await killer.script_flush()
            await killer.client_kill_filter(_type="normal", skipme=True)
            await sleep(0.01)

    await together(disturb, *(partial(act, holder) for holder in holders))
    for holder in holders:
        assert len(await store.load(holder.workflow)) == 5
    for one in (client, killer):
        await one.aclose()
