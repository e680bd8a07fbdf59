# Generated from tests/redis_async/test_gone.py by twin.py. Edit that file.
"""Records that are gone are reported and parked, never run from the top in silence; and how long records are kept."""

from __future__ import annotations

import json
import logging
from datetime import timedelta
from typing import Any

import pytest
from durably.embedded import EmbeddedServer
from durably_redis_sync import (
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
from durably_redis_sync._client import is_cluster
from proxy import serving
from support import ms
from support_sync import Event, Redis, Started, eventually, sleep
from support_sync import client as connect


def pair(store: RedisCheckpointer, queue: Any) -> Any:
    """The two as one pair: what concerns both is one script, where there is one server."""
    return SplitDurable(store, queue) if is_cluster(store.redis) else RedisDurable(store, queue)


@pytest.fixture(params=["stream", "set"])
def durable(request: pytest.FixtureRequest, redis: Redis, namespace: str) -> Any:
    """Each queue, with a lease of 200 ms."""
    queue: Any
    if request.param == "stream":
        queue = RedisStreamScheduler(redis, namespace, lease=ms(200))
    else:
        queue = RedisSetScheduler(redis, namespace, lease=ms(200), poll=ms(5))
    queue.prepare()
    return pair(RedisCheckpointer(redis, namespace), queue)


NAP = ms(20)


class Body:
    """Does two steps, sleeps, and waits; counts how often the first step runs."""

    def __init__(self, nap: timedelta = NAP) -> None:
        self.ran = 0
        self.nap = nap

    def __call__(self, run: Run) -> object:
        def first() -> int:
            self.ran += 1
            return self.ran

        run.step("a", first, int)
        run.sleep("nap", self.nap)
        return run.awaiting("go", int)


def next_delivery(durable: Any) -> Delivery:
    def look() -> Any:
        durable.scheduler.wake_due()
        return durable.scheduler.next_ready(ms(5))

    found: Delivery = eventually(look, describing="a wakeup comes")
    return found


def one_pass(durable: Any, body: Any) -> Any:
    return advance(durable, body, next_delivery(durable))


def nothing_waits(durable: Any) -> bool:
    durable.scheduler.wake_due()
    waiting = durable.scheduler.next_ready(ms(5)), durable.scheduler.reclaim(timedelta(0))
    return waiting == (None, None)


class TestGone:
    def test_a_sleeper_whose_records_are_gone(
        self, durable: Any, redis: Redis, caplog: pytest.LogCaptureFixture
    ) -> None:
        body = Body()
        durable.scheduler.make_ready("w")
        assert isinstance(one_pass(durable, body), Sleeping)
        redis.delete(durable.checkpointer.hash_key("w"))
        stop = Event()
        with caplog.at_level(logging.ERROR, "durably.worker"):
            working = Started(work, durable, body, stop=stop, tick=ms(10), within=ms(20))

            def parked() -> Any:
                return durable.scheduler.parked()

            found = eventually(parked, describing="it is parked")
            stop.set()
            working.result()
        assert list(found) == ["w"] and body.ran == 1
        said = json.loads(found["w"])
        assert "0 of 2" in said["reason"]
        assert abs(said["at"] / 1000 - now_utc().timestamp()) < 60
        assert [one for one in caplog.messages if "'w'" in one and "parked" in one]
        assert nothing_waits(durable)

    def test_a_blocked_one_that_gets_its_value_after_its_records_are_gone(
        self, durable: Any, redis: Redis
    ) -> None:
        body = Body(ms(1))
        durable.scheduler.make_ready("w")
        outcome = None
        while not isinstance(outcome, Blocked):  # the nap may be over before its pass is
            outcome = one_pass(durable, body)
        redis.delete(durable.checkpointer.hash_key("w"))
        durable.arrive("w", "go", 1)
        with pytest.raises(CheckpointGone, match="'w'.*1 of 3") as caught:
            one_pass(durable, body)
        assert caught.value.workflow == "w" and body.ran == 1
        for claim in (durable.checkpointer.claim, lambda name: claimed(durable.checkpointer, name)):
            with pytest.raises(CheckpointGone):
                claim("w")
        assert list(durable.scheduler.parked()) == ["w"] and nothing_waits(durable)

    def test_as_many_that_come_as_are_gone_hide_nothing(self, durable: Any, redis: Redis) -> None:
        def waits(run: Run) -> object:
            given = run.input(int)
            return given, run.awaiting("go", int)

        durable.start("w", 1)
        assert isinstance(one_pass(durable, waits), Blocked)
        redis.delete(durable.checkpointer.hash_key("w"))
        durable.arrive("w", "go", 1)
        durable.deliver("w", "hi")
        with pytest.raises(CheckpointGone, match="2 of 3"):
            one_pass(durable, waits)
        durable.delete("w")
        durable.start("w", 2)
        durable.arrive("w", "go", 3)
        while not isinstance(outcome := one_pass(durable, waits), Completed):
            pass
        assert outcome == Completed((2, 3))

    def test_a_sleeper_of_which_nothing_at_all_is_known(self, durable: Any, redis: Redis) -> None:
        body = Body()
        durable.scheduler.make_ready("w")
        one_pass(durable, body)
        redis.delete(durable.checkpointer.hash_key("w"), durable.checkpointer.pass_key("w"))
        with pytest.raises(CheckpointGone):
            one_pass(durable, body)
        assert body.ran == 1 and list(durable.scheduler.parked()) == ["w"]
        assert redis.exists(durable.checkpointer.pass_key("w")) == 0

    def test_one_whose_worker_died_in_its_pass(self, durable: Any, redis: Redis) -> None:
        holder = claimed(durable.checkpointer, "w", alive=ms(10))
        durable.checkpointer.record(holder, "a", 1)
        redis.delete(durable.checkpointer.hash_key("w"))
        sleep(0.02)
        with pytest.raises(CheckpointGone, match="0 of 1"):
            durable.checkpointer.claim("w")

    def test_expiry_itself_is_noticed(self, durable: Any, redis: Redis, namespace: str) -> None:
        short = pair(RedisCheckpointer(redis, namespace, ttl=ms(150)), durable.scheduler)
        body = Body()
        short.scheduler.make_ready("w")
        one_pass(short, body)

        def expired() -> bool:
            return redis.exists(short.checkpointer.hash_key("w")) == 0

        eventually(expired, describing="nobody works, the records expire")
        assert redis.exists(short.checkpointer.pass_key("w")) == 1
        with pytest.raises(CheckpointGone):
            one_pass(short, body)

    def test_it_may_begin_afresh(self, durable: Any, redis: Redis) -> None:
        body = Body()
        durable.scheduler.make_ready("w")
        one_pass(durable, body)
        redis.delete(durable.checkpointer.hash_key("w"))
        with pytest.raises(CheckpointGone):
            one_pass(durable, body)
        assert durable.scheduler.unpark("w") and not durable.scheduler.unpark("w")
        with pytest.raises(CheckpointGone):
            one_pass(durable, body)
        durable.delete("w")
        assert durable.scheduler.parked() == {}
        durable.arrive("w", "go", 5)
        one_pass(durable, body)
        assert one_pass(durable, body) == Completed(5) and body.ran == 2

    def test_what_is_not_gone_runs(self, durable: Any, redis: Redis) -> None:
        def at_once(run: Run) -> int:
            def effect() -> int:
                return 1

            return run.step("a", effect, int)

        for _ in range(2):  # the second time it has ended, and its records are gone: that is no loss
            durable.scheduler.make_ready("w")
            assert one_pass(durable, at_once) == Completed(1)
            redis.delete(durable.checkpointer.hash_key("w"))
        other = claimed(durable.checkpointer, "x", alive=ms(50))
        durable.scheduler.make_ready("x")
        delivery = next_delivery(durable)
        assert advance(durable, at_once, delivery, contended=ms(20)) is None
        sleep(0.06)  # its holder died and recorded nothing
        assert other and one_pass(durable, at_once) == Completed(1)
        assert durable.scheduler.parked() == {}

    def test_park_and_unpark_are_said_again(
        self, durable: Any, server: EmbeddedServer, namespace: str
    ) -> None:
        with serving(server) as proxy:
            far = connect(proxy.url)
            queue: Any = type(durable.scheduler)(far, namespace)
            queue.make_ready("w")
            for _ in range(2):  # the first time the script is not known
                delivery = queue.next_ready(ms(200))
                assert delivery is not None
                proxy.swallow_next("evalsha")
                queue.park(delivery, "no reason")
                assert json.loads((queue.parked())["w"])["reason"] == "no reason"
                proxy.swallow_next("evalsha")
                assert queue.unpark("w")
                assert queue.parked() == {}
            delivery = queue.next_ready(ms(200))
            assert delivery is not None and delivery.workflow == "w"
            queue.done(delivery)
            assert nothing_waits(durable)
            far.close()

    def test_a_delivery_that_is_lost_parks_nothing(self, durable: Any) -> None:
        durable.scheduler.make_ready("w")
        delivery = next_delivery(durable)
        durable.scheduler.cancel("w")
        durable.scheduler.done(delivery)
        durable.scheduler.park(delivery, "late")
        assert durable.scheduler.parked() == {}


def test_the_memory_queue_parks_too() -> None:
    queue = MemoryScheduler()
    durable: SplitDurable[Any] = SplitDurable(MemoryCheckpointer(), queue)
    queue.make_ready("w")
    delivery = queue.next_ready(ms(5))
    assert delivery is not None
    with pytest.raises(CheckpointGone):
        advance(durable, Body(), Delivery("w", delivery.receipt, slept=True))
    assert list(queue.parked()) == ["w"]
    assert queue.unpark("w") and not queue.unpark("w")
    again = queue.next_ready(ms(5))
    assert again is not None
    queue.park(again, "why")
    queue.cancel("w")
    assert queue.parked() == {}


class TestHowLongRecordsAreKept:
    def test_the_claims_key_outlives_the_records(self, redis: Redis, namespace: str) -> None:
        store = RedisCheckpointer(redis, namespace, ttl=ms(10_000), abandon_after=ms(30_000))

        def blocked(run: Run) -> object:
            return run.awaiting("go", int)

        def sleeps(run: Run) -> None:
            run.sleep("nap", ms(60_000))

        def ends(run: Run) -> None:
            pass

        for n, body in enumerate((blocked, sleeps, ends, LookupError("no"), None)):
            store.supply(f"w{n}", "a", 1)
            holder = claimed(store, f"w{n}", ms(20_000), ms(5_000))
            store.record(holder, "b", 1)
            for outcome in (None, body if not callable(body) else resume(holder, store, body)):
                left = [redis.pttl(key(f"w{n}")) for key in (store.hash_key, store.pass_key)]
                assert left[1] - left[0] > 9_900, (n, outcome, left)
                store.release(holder, outcome)
            left = [redis.pttl(key(f"w{n}")) for key in (store.hash_key, store.pass_key)]
            assert left[1] - left[0] > 9_900, (n, left)

    def test_records_do_not_expire_under_a_live_claim(self, redis: Redis, namespace: str) -> None:
        store = RedisCheckpointer(redis, namespace, ttl=ms(50))
        holder = claimed(store, "w", ms(5_000), ms(300))
        store.record(holder, "a", 1)
        for _ in range(3):
            sleep(0.2)
            assert store.renew(holder, ms(300))
        assert store.load("w") == {"a": 1}

    def test_a_failed_one_is_kept_as_long_as_asked(self, redis: Redis, namespace: str) -> None:
        for ttl, keep, left in ((1_000, 60_000, 60_000), (20_000, None, 20_000)):
            kept = None if keep is None else ms(keep)
            store = RedisCheckpointer(redis, f"{namespace}{ttl}", ttl=ms(ttl), keep_failed=kept)
            store.supply("w", "a", 1)
            holder = claimed(store, "w", alive=ms(10))
            store.release(holder, LookupError("no"))
            assert left - 1_000 < redis.pttl(store.hash_key("w")) <= left + 10
            assert left + ttl - 1_000 < redis.pttl(store.pass_key("w"))
            again = claimed(store, "w", alive=ms(10))
            store.release(again, Completed(None))
            assert redis.pttl(store.hash_key("w")) <= ttl
        waits = RedisCheckpointer(redis, namespace, keep_failed=ms(30_000))
        for outcome, kept_for in ((Blocked(("go",)), None), (LookupError("no"), 30_000)):
            holder = claimed(waits, "w", alive=ms(10))
            waits.record(holder, "a", 1)
            waits.release(holder, outcome)
            left = redis.pttl(waits.hash_key("w"))
            assert left == -1 if kept_for is None else 29_000 < left <= kept_for
        with pytest.raises(ValueError, match="keep_failed"):
            RedisCheckpointer(redis, keep_failed=timedelta(0))

    def test_ttl_may_change_on_a_running_fleet(self, redis: Redis, namespace: str) -> None:
        short = RedisCheckpointer(redis, namespace, ttl=ms(100))
        long = RedisCheckpointer(redis, namespace, ttl=ms(600_000))
        for first, second in ((short, long), (long, short)):
            name = f"w{first.ttl}"
            holder = claimed(first, name, ms(600_000), ms(2_000))
            first.record(holder, "a", 1)
            second.supply(name, "b", 2)
            assert second.renew(holder, ms(2_000)) and first.renew(holder, ms(2_000))
            sleep(0.3)
            assert second.claim(name) is None, "no live claim is cut short"
            second.append(name, "mail")
            first.release(holder, Blocked(("go",)))
            for other in (second, first):
                other.supply(name, f"from {other.ttl}", 1)
            sleep(0.25)
            assert len(first.load(name)) == 5, "no wait is cut short"
            holder = claimed(second, name, ms(600_000), ms(10))
            first.release(holder, Sleeping("nap", now_utc() + ms(1_000)))
            second.supply(name, "d", 1)
            sleep(0.4)
            assert redis.pttl(second.hash_key(name)) > 400, "no sleep is cut short"
            holder = claimed(first, name, ms(600_000), ms(10))
            second.release(holder)
            assert redis.pttl(second.hash_key(name)) > 90

    def test_what_waits_for_its_first_pass_does_not_expire(self, durable: Any, redis: Redis) -> None:
        store = RedisCheckpointer(redis, durable.checkpointer.namespace, ttl=ms(400))
        one = pair(store, durable.scheduler)
        split: SplitDurable[Any] = SplitDurable(store, durable.scheduler)

        def body(run: Run) -> object:
            given = run.input(str)
            (message,) = run.receive("read", limit=1)
            return given, message.value

        pairs: list[Any] = [one, split]
        for n, how in enumerate(pairs):
            name = f"w{n}"
            how.deliver(name, "mail", once="m")
            how.start(name, "in")
            sleep(1.0)  # no worker for longer than ttl
            how.deliver(name, "mail", once="m")
            while (delivery := durable.scheduler.next_ready(ms(5))) is not None:
                assert advance(one, body, delivery) == Completed(("in", "mail"))
        assert 0 < redis.pttl(store.hash_key("w1")) <= 400
        assert 0 < redis.pttl(store.pass_key("w1")) <= 800
        store.supply("by hand", "a", 1)
        holder = claimed(store, "by hand", ms(200), ms(50))
        assert 0 < redis.pttl(store.hash_key("by hand")) <= 450
        store.release(holder)
        store.discard("by hand")
        store.supply("by hand", "a", 2)
        sleep(1.0)
        assert store.load("by hand") == {"a": 2}

    @pytest.mark.parametrize("wait", ["sleep", "wait"])
    def test_a_ttl_shorter_than_the_wait(self, durable: Any, redis: Redis, wait: str) -> None:
        store = RedisCheckpointer(redis, durable.checkpointer.namespace, ttl=timedelta(seconds=2))
        short = pair(store, durable.scheduler)

        def body(run: Run) -> None:
            def effect() -> str:
                return run.workflow

            run.input(str)
            run.step("a", effect, str)
            if wait == "sleep":
                run.sleep("nap", timedelta(seconds=5))
            else:
                run.awaiting("go", str)
            run.step("result", effect, str)

        short.start("w", "hello")
        stop = Event()
        working = Started(work, short, body, stop=stop, tick=ms(20), within=ms(50))
        sleep(4.8)
        assert set(store.load("w")) >= {"input", "a"}
        if wait == "wait":
            sleep(0.3)
            short.arrive("w", "go", "now")

        def finished() -> bool:
            return "result" in store.load("w")

        eventually(finished, describing="it finishes", within=5)
        stop.set()
        working.result()
        assert short.scheduler.parked() == {}
