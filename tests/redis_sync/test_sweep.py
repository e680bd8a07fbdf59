# Generated from tests/redis_async/test_sweep.py by twin.py. Edit that file.
"""The sweep: what a process that died between two writes, or a queue that lost data, leaves behind is mended."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import pytest
from durably.embedded import EmbeddedServer
from durably.keys import bell_key, set_slept_key, sweep_lock_key
from durably.sweep_scripts import LOOK, Look, look_keys, read_look
from durably_redis_sync import (
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
from durably_redis_sync._client import is_cluster, register, send
from durably_redis_sync.resume import resume
from durably_redis_sync.sweeper import _side
from proxy import serving
from support import ms
from support_sync import Crashed, Event, Faults, Redis, Started, eventually, sleep, together
from support_sync import client as connect

SOON = ms(1)


def pair(kind: str, redis: Redis, namespace: str, lease: float = 150) -> Any:
    store = RedisCheckpointer(redis, namespace)
    if kind == "stream":
        return SplitDurable(store, RedisStreamScheduler(redis, namespace, lease=ms(lease)))
    return SplitDurable(store, RedisSetScheduler(redis, namespace, lease=ms(lease), poll=ms(5)))


@pytest.fixture(params=["stream", "set"])
def durable(request: pytest.FixtureRequest, redis: Redis, namespace: str) -> Any:
    """A store with each queue."""
    made = pair(request.param, redis, namespace)
    made.scheduler.prepare()
    return made


def once(durable: Any, **options: Any) -> Swept:
    """The sweep once around, after everything has settled: other tests' keys are in the database as well."""
    sleep(0.005)
    swept: list[Swept] = []
    while not swept or swept[-1].cursor != "0":
        swept.append(sweep(durable, **{"settled": SOON, **options}))
    names = ("woken", "asleep", "parked", "consumers")
    found: Any = {name: tuple(one for each in swept for one in getattr(each, name)) for name in names}
    return Swept(**found, looked=sum(one.looked for one in swept), cursor="0")


def waits(run: Run) -> object:
    """Waits for its input, a value and a message; returns them."""
    given = run.input(str)
    value = run.awaiting("go", str)
    (message,) = run.receive("read", limit=1)
    return [given, value, message.value]


def naps(run: Run) -> str:
    run.sleep("nap", ms(150))
    return "awake"


def next_delivery(durable: Any, within: float = 0.5) -> Any:
    def look() -> Any:
        durable.scheduler.wake_due()
        return durable.scheduler.reclaim(durable.scheduler.lease) or (durable.scheduler.next_ready(ms(5)))

    try:
        return eventually(look, describing="a wakeup comes", within=within)
    except AssertionError:
        return None


def worked(durable: Any, body: Any, within: float = 0.3) -> list[Any]:
    """What passes come to, one after the other, until no wakeup comes `within` seconds."""
    outcomes = []
    while (delivery := next_delivery(durable, within)) is not None:
        outcomes.append(advance(durable, body, delivery, contended=ms(20)))
    return outcomes


def queue_key(durable: Any) -> str:
    """Where the queue keeps who sleeps."""
    queue = durable.scheduler
    return str(queue.sleeping_key if isinstance(queue, RedisStreamScheduler) else queue.schedule_key)


def lose_wakeups(durable: Any) -> None:
    """What the queue holds is lost."""
    queue = durable.scheduler
    if isinstance(queue, RedisStreamScheduler):
        queue.redis.delete(queue.sleeping_key)
        queue.redis.xtrim(queue.ready_key, maxlen=0)
    else:
        queue.redis.delete(queue.schedule_key)


class TestOfTwoWrites:
    """A process dies at each boundary of the calls that it makes; after one sweep nothing hangs."""

    @pytest.mark.parametrize("act", ["start", "arrive", "deliver"])
    def test_a_value_without_its_wakeup(self, durable: Any, act: str) -> None:
        acts: dict[str, Any] = {
            "start": lambda to: to.start("w", "in"),
            "arrive": lambda to: to.arrive("w", "go", "value"),
            "deliver": lambda to: to.deliver("w", "mail"),
        }
        boundary, ended = 0, False
        while not ended:
            durable.delete("w")
            for name, do in acts.items():
                if name != act:
                    do(durable)
            worked(durable, waits, 0.05)
            faults = Faults(boundary)
            dying: Any = SplitDurable(faults.over(durable.checkpointer), faults.over(durable.scheduler))
            try:
                acts[act](dying)
                ended = True
            except Crashed:
                pass
            recorded = len(durable.checkpointer.load("w"))
            swept = once(durable)
            assert swept.woken == (() if boundary in (0, 3, 4) else ("w",)), (boundary, faults.passed)
            outcomes = worked(durable, waits, 0.05)
            if boundary == 0:
                assert recorded == 2 and outcomes == []
            else:
                assert outcomes == [Completed(["in", "value", "mail"])], (boundary, faults.passed)
            boundary += 1
        assert boundary == 5

    def test_a_deletion_that_was_begun(self, durable: Any) -> None:
        for boundary in range(5):
            durable.start("w", "in")
            (delivery,) = [next_delivery(durable)]
            assert isinstance(advance(durable, naps, delivery), Sleeping)
            faults = Faults(boundary)
            dying: Any = SplitDurable(faults.over(durable.checkpointer), faults.over(durable.scheduler))
            try:
                dying.delete("w")
            except Crashed:
                pass
            swept = once(durable)
            assert (swept.woken, swept.asleep) == ((), ()), "cancelled stays cancelled"
            outcomes = worked(durable, naps, 0.5)
            assert outcomes == ([Completed("awake")] if boundary == 0 else [])
            durable.delete("w")
            assert durable.checkpointer.load("w") == {}

    def test_the_end_of_a_pass(self, durable: Any) -> None:
        def body(run: Run) -> str:
            run.input(str)
            run.sleep("nap", ms(30))
            return run.awaiting("go", str)

        boundary, ended = 0, False
        while not ended:
            durable.delete("w")
            durable.start("w", "in")
            durable.arrive("w", "go", "value")
            faults = Faults(boundary)
            dying: Any = SplitDurable(faults.over(durable.checkpointer), faults.over(durable.scheduler))
            delivery = next_delivery(durable)
            try:
                advance(dying, body, delivery, budget=ms(60_000))
                ended = True
            except BaseException as error:  # the crash may come in a group
                assert "Crashed" in repr(error), error
            sleep(0.2)
            once(durable)
            outcomes = worked(durable, body, 0.25)
            assert Completed("value") in outcomes or ended, (boundary, faults.passed, outcomes)
            boundary += 1
        assert boundary > 8


class TestWhatAQueueLost:
    def test_a_deadline_is_put_back(self, durable: Any) -> None:
        durable.start("w", "in")
        assert isinstance((worked(durable, naps, 0.01))[0], Sleeping)
        assert (once(durable)).asleep == ()
        lose_wakeups(durable)
        swept = once(durable)
        assert (swept.asleep, swept.woken) == (("w",), ())
        assert (once(durable)).asleep == ()
        assert worked(durable, naps, 0.3) == [Completed("awake")]

    def test_a_deadline_that_has_passed_wakes(self, durable: Any) -> None:
        durable.start("w", "in")
        worked(durable, naps, 0.01)
        lose_wakeups(durable)
        sleep(0.2)
        swept = once(durable)
        assert (swept.asleep, swept.woken) == ((), ("w",))
        assert worked(durable, naps, 0.05) == [Completed("awake")]

    def test_one_whose_worker_died_is_woken(self, durable: Any) -> None:
        holder = claimed(durable.checkpointer, "w", alive=ms(10))
        durable.checkpointer.record(holder, "a", 1)
        assert (once(durable, settled=ms(300))).woken == ()
        sleep(0.02)
        assert (once(durable)).woken == ("w",)
        assert (once(durable)).woken == (), "its wakeup waits to be taken"
        delivery = next_delivery(durable)
        assert delivery is not None and (once(durable)).woken == (), "its wakeup is out"

    def test_a_live_pass_is_left_alone(self, durable: Any) -> None:
        holder = claimed(durable.checkpointer, "w")
        durable.checkpointer.record(holder, "a", 1)
        assert (once(durable)).woken == ()


class TestNoFlood:
    def test_a_blocked_workflow_with_nothing_new_is_never_woken(self, durable: Any) -> None:
        durable.start("w", "in")
        assert isinstance((worked(durable, waits, 0.01))[0], Blocked)
        for _ in range(3):
            swept = once(durable)
            assert swept.looked == 1 and swept.woken == swept.asleep == swept.parked == ()
        assert worked(durable, waits, 0.05) == []

    def test_one_that_ended_or_failed_is_left_alone(self, durable: Any) -> None:
        for name, outcome in (("ended", Completed(1)), ("failed", LookupError("no"))):
            holder = claimed(durable.checkpointer, name)
            durable.checkpointer.record(holder, "a", 1)
            durable.checkpointer.release(holder, outcome)
            durable.checkpointer.supply(name, "b", 1)
        assert (once(durable)).woken == ()

    def test_one_of_which_nobody_said_what_it_waits_for_is_woken_once(self, durable: Any) -> None:
        durable.checkpointer.supply("w", "a", 1)
        for expected in (("w",), (), ()):
            assert (once(durable)).woken == expected
            while (delivery := durable.scheduler.next_ready(ms(5))) is not None:
                durable.scheduler.done(delivery)  # as a worker of another version does
        durable.checkpointer.supply("w", "b", 1)
        assert (once(durable)).woken == ("w",)

    def test_what_came_while_the_pass_ran_is_new_to_it(self, durable: Any) -> None:
        def body(run: Run) -> object:
            def effect() -> int:
                durable.checkpointer.supply("w", "go", "value")
                return 1

            run.step("a", effect, int)
            return run.awaiting("go", str)

        durable.start("w", "in")
        assert worked(durable, body, 0.01) == [Blocked(("go",))]
        assert (once(durable)).woken == ("w",)
        assert worked(durable, body, 0.01) == [Completed("value")]

    def test_news_wake_a_sleeper_before_its_time(self, durable: Any) -> None:
        def body(run: Run) -> str:
            if "go" not in run.recorded:
                run.sleep("until", timedelta(hours=1))
            return "early"

        durable.start("w", "in")
        worked(durable, body, 0.01)
        durable.checkpointer.supply("w", "go", 1)
        assert (once(durable)).woken == ("w",)
        assert (once(durable)).woken == ()
        assert worked(durable, body, 0.05) == [Completed("early")]

    def test_cancelled_stays_cancelled(self, durable: Any, redis: Redis) -> None:
        durable.start("sleeps", "in")
        worked(durable, naps, 0.01)
        durable.start("waits", "in")
        worked(durable, waits, 0.01)
        durable.checkpointer.supply("waits", "go", "value")
        for name in ("sleeps", "waits"):
            durable.scheduler.cancel(name)
        swept = once(durable)
        assert (swept.woken, swept.asleep) == ((), ())
        sleep(0.2)
        assert (once(durable)).woken == ()
        durable.checkpointer.append("waits", "mail")
        assert (once(durable)).woken == ("waits",), "this one came after the cancellation"
        assert worked(durable, waits, 0.05) == [Completed(["in", "value", "mail"])]
        names = dropped(redis)
        assert set(names) >= {"sleeps"}
        for name in ("sleeps", "waits"):
            durable.delete(name)
        once(durable)
        assert dropped(redis) == []


def dropped(redis: Redis) -> list[str]:
    """The marks of cancellations in this test's database that its own namespace holds."""
    found: list[str] = []
    for key in redis.scan_iter("*:dropped"):
        found += [str(one) for one in redis.hkeys(key)]
    return [one for one in found if one in ("sleeps", "waits")]


def test_sleepers_whose_records_are_gone_are_parked(durable: Any, redis: Redis) -> None:
    def longer(run: Run) -> str:
        run.sleep("nap", ms(900))
        return "awake"

    for name in ("half", "all", "there"):
        durable.start(name, "in")
        worked(durable, longer, 0.01)
    redis.delete(durable.checkpointer.hash_key("half"), durable.checkpointer.hash_key("all"))
    redis.delete(durable.checkpointer.pass_key("all"))
    durable.scheduler.make_ready("never ran")
    swept = once(durable)
    assert sorted(swept.parked) == ["all", "half"]
    assert sorted(durable.scheduler.parked()) == ["all", "half"]
    assert (once(durable)).parked == ()
    outcomes = worked(durable, longer, 1.2)
    assert outcomes.count(Completed("awake")) == 2


def test_many_sleepers_are_looked_at_in_parts(durable: Any, redis: Redis) -> None:
    names = [f"w{n}" for n in range(1200)]
    with redis.pipeline(transaction=False) as pipe:
        for name in names:
            pipe.zadd(queue_key(durable), {name: 10**13})
            if isinstance(durable.scheduler, RedisSetScheduler):
                pipe.hset(set_slept_key(durable.scheduler.namespace), name, "1")
        pipe.execute()
    parked: list[str] = []
    rounds, cursor = 0, ""
    while cursor != "0":
        swept = sweep(durable, limit=100)
        assert len(swept.parked) <= 1000
        parked += swept.parked
        rounds, cursor = rounds + 1, swept.cursor
    assert sorted(parked) == sorted(names) and rounds >= 2
    assert sorted(durable.scheduler.parked()) == sorted(names)


def test_consumers_that_are_gone(redis: Redis, namespace: str) -> None:
    stays, gone = [
        RedisStreamScheduler(redis, namespace, lease=ms(20), consumer=name) for name in ("stays", "gone")
    ]
    stays.prepare()
    durable: Any = SplitDurable(RedisCheckpointer(redis, namespace), stays)

    def names() -> list[str]:
        told: Any = redis.xinfo_consumers(stays.ready_key, stays.group)
        return sorted(one["name"] for one in told)

    stays.next_ready(ms(2))
    stays.make_ready("w")
    assert gone.next_ready(ms(50)) is not None
    sleep(0.05)
    assert (once(durable)).consumers == (), "an hour by default"
    assert (once(durable, consumers_idle=ms(20))).consumers == (), "it holds a delivery"
    delivery = stays.reclaim(ms(20))
    assert delivery is not None and delivery.workflow == "w"
    sleep(0.05)
    assert (once(durable, consumers_idle=ms(20))).consumers == ("gone",)
    assert names() == ["stays"], "one's own is kept"
    gone.make_ready("x")
    assert gone.next_ready(ms(50)) is not None, "one that comes back is there again"
    assert names() == ["gone", "stays"]


def test_two_sweepers_at_once(durable: Any) -> None:
    for n in range(30):
        durable.start(f"w{n}", "in")
    worked(durable, waits, 0.01)
    for n in range(30):
        durable.checkpointer.supply(f"w{n}", "go", "value")
        durable.checkpointer.append(f"w{n}", "mail")
    sleep(0.005)
    swept = together(*(lambda: once(durable) for _ in range(3)))
    assert {name for one in swept for name in one.woken} == {f"w{n}" for n in range(30)}
    outcomes = worked(durable, waits, 0.05)
    assert outcomes.count(Completed(["in", "value", "mail"])) >= 30
    assert len(outcomes) <= 90
    assert (once(durable)).woken == ()


@pytest.mark.parametrize("kind", ["stream", "set"])
def test_passes_in_a_row_get_around_with_bounded_calls(
    own_server: EmbeddedServer, namespace: str, kind: str
) -> None:
    client = connect(own_server.url)
    durable = pair(kind, client, namespace)
    durable.scheduler.prepare()
    with client.pipeline(transaction=False) as pipe:
        for n in range(5000):
            pipe.hset(f"{namespace}:{{w{n}}}", "input", f"0:{n}:1")
            state: Any = {"state": "waits", "seen": 1, "token": n + 1}
            pipe.hset(f"{namespace}:{{w{n}}}:pass", mapping=state)
        pipe.execute()
    broken = [f"w{n}" for n in range(0, 5000, 500)]
    for name in broken:
        durable.checkpointer.supply(name, "go", 1)
    before: Any = client.info("commandstats")
    sleep(0.005)
    woken: list[str] = []
    looked, rounds, cursor = 0, 0, ""
    while cursor != "0":
        swept = sweep(durable, settled=SOON)
        assert swept.looked <= 1500
        woken += swept.woken
        looked, rounds, cursor = looked + swept.looked, rounds + 1, swept.cursor
    assert sorted(woken) == sorted(broken)
    assert looked >= 5000 and rounds <= 12
    after: Any = client.info("commandstats")

    def calls(name: str) -> int:
        counts = [stats.get(name, {"calls": 0})["calls"] for stats in (after, before)]
        return int(counts[0] - counts[1])

    assert calls("cmdstat_scan") <= 4 * rounds + 1
    assert calls("cmdstat_evalsha") + calls("cmdstat_eval") <= looked + 20 * rounds + 600
    assert calls("cmdstat_keys") == 0
    client.close()


def test_a_backlog_is_looked_through(durable: Any) -> None:
    durable.start("held", "in")
    durable.start("lost", "in")
    worked(durable, waits, 0.01)
    for name in ("held", "lost"):
        durable.checkpointer.supply(name, "go", "value")
    for n in range(1200):
        durable.scheduler.make_ready(f"x{n}")
    durable.scheduler.make_ready("held")
    assert (once(durable)).woken == ("lost",)
    taken: set[str] = set()
    while (delivery := durable.scheduler.next_ready(ms(5))) is not None:
        taken.add(delivery.workflow)  # pending now
        if isinstance(durable.scheduler, RedisSetScheduler) and len(taken) > 1100:
            break
    assert (once(durable)).woken == ()


def test_a_worker_sweeps_by_itself_one_at_a_time(durable: Any, redis: Redis) -> None:
    ended: list[str] = []

    def body(run: Run) -> None:
        run.sleep("nap", ms(1500))
        ended.append("awake")

    durable.start("w", "in")
    worked(durable, body, 0.01)
    lose_wakeups(durable)
    home = durable.checkpointer.namespace
    if isinstance(durable.scheduler, RedisSetScheduler):
        home += ":schedule"
    redis.set(sweep_lock_key(home), "another", px=400)
    stop = Event()
    options: Any = {"stop": stop, "tick": ms(10), "within": ms(20), "sweep_every": ms(30)}
    working = Started(work, durable, body, **options)
    sleep(0.3)
    assert durable.checkpointer.redis.exists(queue_key(durable)) == 0, "another holds the lock"

    def awake() -> bool:
        return bool(ended)

    eventually(awake, describing="the sweep puts the deadline back")
    stop.set()
    working.result()


def test_a_worker_told_not_to_sweeps_nothing(durable: Any) -> None:
    durable.start("w", "in")
    worked(durable, naps, 0.01)
    lose_wakeups(durable)
    stop = Event()
    working = Started(work, durable, naps, stop=stop, tick=ms(10), within=ms(20), sweep_every=None)
    sleep(0.3)
    stop.set()
    working.result()
    assert (once(durable)).woken == ("w",)


def test_a_sink_of_events(durable: Any) -> None:
    durable.start("w", "in")
    worked(durable, naps, 0.01)
    lose_wakeups(durable)

    def events() -> Any:
        for _ in range(10):
            yield "now"

    sweeping(durable)(events())
    assert worked(durable, naps, 0.3) == [Completed("awake")]


def test_what_cannot_be_swept_is_refused(durable: Any) -> None:
    memory: SplitDurable[Any] = SplitDurable(MemoryCheckpointer(), MemoryScheduler())
    with pytest.raises(TypeError, match="MemoryCheckpointer and MemoryScheduler"):
        sweep(memory)
    with pytest.raises(TypeError):
        sweeping(memory)
    bad: Any = ({"limit": 0}, {"settled": timedelta(0)}, {"consumers_idle": timedelta(0)})
    for options in bad:
        with pytest.raises(ValueError):
            sweep(durable, **options)


def test_namespaces_and_keys_of_others_are_left_alone(redis: Redis, namespace: str) -> None:
    odd = pair("set", redis, namespace + "[a]*?")
    odd.checkpointer.supply("w", "a", 1)
    other = pair("set", redis, namespace + "a")
    other.checkpointer.supply("x", "a", 1)
    redis.set(f"{namespace}a:{{text}}", "no hash")
    redis.hset(f"{namespace}a:{{w}}:{{n}}", "no", "workflow")
    redis.hset(f"{namespace}a:{{n}}", "no", "workflow")
    assert (once(odd)).woken == ("w",)
    assert (once(other)).woken == ("x",)
    waiting = claimed(other.checkpointer, "x")
    assert isinstance(resume(waiting, other.checkpointer, waits), Blocked)


def test_what_a_sweep_says_is_said_again(
    durable: Any, server: EmbeddedServer, namespace: str, redis: Redis
) -> None:
    def longer(run: Run) -> str:
        run.sleep("nap", ms(60_000))
        return "awake"

    with serving(server) as proxy:
        client = connect(proxy.url)
        far = pair("stream" if queue_key(durable).endswith("sleeping") else "set", client, namespace)
        side: Any = _side(far)
        durable.start("w", "in")
        worked(durable, longer, 0.01)
        for kind in ("sleeping", "lost"):
            look = Look(kind, 2**43, 1, 2**43, 2**42)
            send(side.mending("x", look))  # the server knows the script
            durable.scheduler.cancel("x")
            before = proxy.swallowed
            proxy.swallow_next("evalsha")
            assert send(side.mending("w2", look)) is True and proxy.swallowed == before + 1
            durable.scheduler.cancel("w2")
        (cursor, page) = side.sleepers("0")
        assert cursor == "0" and [one.workflow for one in page] == ["w"]
        assert send(side.parking("w", "17", "no")) is False
        proxy.swallow_next("evalsha")
        assert send(side.parking("w", page[0].said, "why")) is True
        assert list(durable.scheduler.parked()) == ["w"]
        if side.queue is far.scheduler and isinstance(far.scheduler, RedisStreamScheduler):
            redis.xgroup_createconsumer(far.scheduler.ready_key, far.scheduler.group, "gone")
            side.consumers(timedelta(hours=1))
            sleep(0.03)
            proxy.swallow_next("evalsha")
            assert "gone" in side.consumers(ms(20))
        client.close()


class TestCancellations:
    """What is cancelled behind a long backlog, where a mark stands for it, and while a sweep looks."""

    def test_a_pass_that_a_cancellation_forestalled_asks_for_nothing(
        self, redis: Redis, namespace: str
    ) -> None:
        for kind in ("stream", "set"):
            durable = pair(kind, redis, namespace + kind)
            durable.scheduler.prepare()
            durable.start("w", "in")
            worked(durable, naps, 0.01)
            durable.scheduler.make_ready("w")
            delivery = durable.scheduler.next_ready(ms(50))
            assert delivery is not None
            durable.scheduler.cancel("w")
            sleep(0.005)
            assert advance(durable, naps, delivery) is None, "it was claimed, and given back"
            sleep(0.2)
            for _ in range(2):
                swept = once(durable)
                assert (swept.woken, swept.asleep) == ((), ()), "cancelled stays cancelled"
            durable.checkpointer.supply("w", "go", 1)
            assert (once(durable)).woken == ("w",), "this came after it"
            assert Completed("awake") in worked(durable, naps, 0.2)

    def test_what_a_mark_holds_back_is_no_wakeup(self, redis: Redis, namespace: str) -> None:
        for out in (False, True):
            queue = RedisStreamScheduler(redis, f"{namespace}{out}", lease=ms(60_000), scan=1)
            durable: Any = SplitDurable(RedisCheckpointer(redis, f"{namespace}{out}"), queue)
            queue.prepare()
            durable.start("w", "in")
            worked(durable, waits, 0.01)
            for name in ("x", "w"):
                queue.make_ready(name)
            if out:
                assert [one.workflow for one in queue.take_now(2)] == ["x", "w"]
            queue.cancel("w")
            assert redis.hlen(queue.marks_key) == 1
            sleep(0.005)
            durable.checkpointer.supply("w", "go", "value")
            assert (once(durable)).woken == ("w",)
            assert (once(durable)).woken == (), "the new wakeup is there"

    def test_one_that_was_cancelled_since_is_not_parked(self, redis: Redis, namespace: str) -> None:
        for scan in (1, 500):
            queue = RedisStreamScheduler(redis, f"{namespace}{scan}", lease=ms(60_000), scan=scan)
            queue.prepare()
            for name in ("x", "w"):
                queue.make_ready(name)
            queue.next_ready(ms(50))
            delivery = queue.next_ready(ms(50))
            assert delivery is not None and delivery.workflow == "w"
            queue.cancel("w")
            queue.park(delivery, "late")
            assert queue.parked() == {}
            pending: Any = redis.xpending(queue.ready_key, queue.group)
            assert pending["pending"] == 1

    def test_a_deletion_while_a_sweep_looks(self, durable: Any, redis: Redis) -> None:
        if is_cluster(redis):
            whole: Any = durable
        else:
            whole = RedisDurable(durable.checkpointer, durable.scheduler)
        once(durable)
        durable.start("w", "in")
        worked(durable, waits, 0.01)
        durable.checkpointer.supply("w", "go", "value")
        sleep(0.005)
        call = register(redis, LOOK).call(look_keys(durable.checkpointer.namespace, "w"), [1], read_look)
        look = send(call)
        assert look.kind == "news"
        whole.delete("w")
        assert send(_side(durable).mending("w", look)) is False
        assert durable.scheduler.next_ready(ms(5)) is None
        sleep(0.005)
        once(durable)
        assert (_side(durable).cancelled("0"))[1] == [], "no note of it is left"


def test_a_waiting_reader_is_rung(redis: Redis, namespace: str) -> None:
    queue = RedisSetScheduler(redis, namespace)
    durable: Any = SplitDurable(RedisCheckpointer(redis, namespace), queue)
    for name in ("mended", "parked"):
        durable.checkpointer.supply(name, "a", 1)
    queue.make_ready("parked")
    delivery = queue.next_ready(ms(50))
    assert delivery is not None
    queue.park(delivery, "why")
    durable.checkpointer.release(claimed(durable.checkpointer, "parked"), Completed(1))
    for name, act in (("parked", lambda: queue.unpark("parked")), ("mended", lambda: once(durable))):
        reading = Started(queue.next_ready, ms(5000))
        sleep(0.2)
        assert redis.exists(bell_key(namespace)) == 0
        began = time.monotonic()
        act()
        taken = reading.result()
        assert taken is not None and taken.workflow == name
        assert time.monotonic() - began < 0.5, "it looks by itself once a second"
        queue.done(taken)


def test_a_wakeup_out_of_a_sleep_says_so_however_it_is_taken(durable: Any) -> None:
    queue = durable.scheduler

    def abandoned() -> Any:
        assert len(queue.take_now(1)) == 1
        return queue.reclaim(ms(0))

    takes: list[Any] = [lambda: queue.take_now(1), lambda: queue.next_several(ms(50), 1), abandoned]
    for take in takes:
        queue.make_ready("w")
        delivery = queue.next_ready(ms(50))
        assert delivery is not None and not delivery.slept
        queue.wake_at(delivery, now_utc() - ms(5))
        queue.wake_due()
        taken = take()
        if taken is None:  # the set has nothing to take over by hand
            break
        (again,) = taken if isinstance(taken, list) else [taken]
        assert again.slept
        extended = queue.extend(again, ms(100))
        assert extended.slept
        queue.wake_at(extended, now_utc() - ms(5))
        queue.wake_due()
        (last,) = queue.take_now(1)
        assert last.slept
        queue.done(last)
        assert queue.available(10) == 0
