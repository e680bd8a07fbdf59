# Generated from tests/redis_async/test_alarms.py by twin.py. Edit that file.
"""Waking on time: deadlines are acted on when they come, and an idle worker asks for next to nothing."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import pytest
from durably.embedded import EmbeddedServer
from durably_redis_sync import (
    MemoryCheckpointer,
    MemoryScheduler,
    RedisCheckpointer,
    RedisSetScheduler,
    RedisStreamScheduler,
    Run,
    SplitDurable,
    now_utc,
    work,
)
from durably_redis_sync.alarms import Alarm, says_when
from support import ms
from support_sync import Event, Redis, Started, eventually, sleep
from support_sync import client as connect

LONG = timedelta(seconds=20)


def queue_of(kind: str, redis: Redis, namespace: str) -> Any:
    if kind == "stream":
        return RedisStreamScheduler(redis, namespace)
    return RedisSetScheduler(redis, namespace)


class Working:
    """A worker for the length of a block."""

    def __init__(self, scheduler: Any, body: Any, **options: Any) -> None:
        self.stop = Event()
        self.durable: SplitDurable[Any] = SplitDurable(MemoryCheckpointer(), scheduler)
        self.body, self.options = body, options

    def __enter__(self) -> Working:
        self.running = Started(work, self.durable, self.body, stop=self.stop, **self.options)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self.running.result(10)


def test_the_soonest_own_deadline_is_next_and_news_of_it_rings() -> None:
    alarm = Alarm()
    assert alarm.next(0.05) is None and not alarm.rung.is_set()
    alarm.own(9.0)
    assert alarm.rung.is_set() and alarm.next(0.05) == 9.0
    alarm.rung.clear()
    alarm.own(10.0)
    assert not alarm.rung.is_set(), "a later one changes nothing"
    alarm.own(8.0)
    assert alarm.rung.is_set() and alarm.next(0.05) == 8.0
    assert alarm.passed(8.5) and alarm.next(0.05) == 9.0
    assert not alarm.passed(8.6)
    assert alarm.passed(11.0) and alarm.next(0.05) is None


def test_what_was_found_is_acted_on_a_tick_later() -> None:
    alarm = Alarm()
    alarm.found(5.0)
    assert alarm.rung.is_set() and alarm.next(0.5) == 5.5
    alarm.own(5.2)
    assert alarm.next(0.5) == 5.2
    alarm.rung.clear()
    alarm.found(7.0)
    assert not alarm.rung.is_set()
    alarm.found(None)
    assert alarm.next(0.5) == 5.2
    alarm.found(1.0)
    alarm.passed(6.0)
    assert alarm.next(0.5) is None


def test_deadlines_close_together_are_one_and_there_is_no_end_of_room() -> None:
    alarm = Alarm()
    for n in range(1_000):
        alarm.own(5.0 + n / 1_000_000)
    assert alarm.passed(5.0011) and alarm.next(1.0) is None
    for n in range(30_000):
        alarm.own(100_000.0 - n)
    alarm.passed(80_000.5)
    assert alarm.next(1.0) is None, "the soonest ten thousand are kept"


@pytest.mark.parametrize("scheduler", ["stream"], indirect=True)
def test_who_waits_as_long_as_told_finds_the_sleeper_due(scheduler: Any) -> None:
    assert scheduler.wake_and_look() == ((), None)
    for n in range(12):
        scheduler.make_ready("w")
        (delivery,) = scheduler.next_several(ms(500), 1)
        scheduler.wake_at(delivery, now_utc() + ms(20 + n))
        left, woken = timedelta(1), ()
        looks = 0
        while not woken:
            woken, next_one = scheduler.wake_and_look()
            looks += 1
            if not woken:
                assert next_one is not None and timedelta(0) < next_one < min(left, ms(100))
                left = next_one
                sleep(left.total_seconds())
        assert woken == ("w",) and looks == 2, "it was told a time too short"
        (delivery,) = scheduler.next_several(ms(500), 1)
        scheduler.done(delivery)


def test_more_are_due_than_one_call_wakes(redis: Redis, namespace: str) -> None:
    queue = RedisStreamScheduler(redis, namespace, batch=3)
    redis.zadd(queue.sleeping_key, {f"w{n}": 1.0 + n for n in range(7)})
    redis.zadd(queue.sleeping_key, {"later": time.time() + 3600})
    woken, left = queue.wake_and_look()
    assert woken == tuple(f"w{n}" for n in range(7))
    assert left is not None and timedelta(minutes=59) < left <= timedelta(hours=1, seconds=1)


@pytest.mark.parametrize("kind", ["stream", "set"])
def test_a_pass_that_sleeps_is_woken_at_its_deadline_whatever_the_tick(
    redis: Redis, namespace: str, kind: str
) -> None:
    queue = queue_of(kind, redis, namespace)
    late: dict[str, float] = {}
    due: dict[str, float] = {}

    def body(run: Run) -> None:
        name = run.workflow
        due.setdefault(name, time.monotonic() + 0.2)
        run.sleep("nap", ms(200))
        late[name] = time.monotonic() - due[name]

    def all_woke() -> bool:
        return len(late) == 8

    with Working(queue, body, tick=LONG):
        for n in range(8):
            queue.make_ready(f"w{n}")
            sleep(0.015)
        eventually(all_woke, describing="the sleepers wake")
    assert all(-0.01 < one < 0.7 for one in late.values()), late


@pytest.mark.parametrize("kind", ["stream", "set"])
def test_a_sleeper_that_another_left_is_woken_by_an_idle_worker(
    redis: Redis, namespace: str, kind: str
) -> None:
    mine, other = queue_of(kind, redis, namespace), queue_of(kind, redis, namespace)
    ended: list[float] = []

    def body(run: Run) -> None:
        ended.append(time.monotonic())

    def woke() -> bool:
        return bool(ended)

    other.prepare()
    other.make_ready("w")
    delivery = other.next_ready(ms(500))
    with Working(mine, body) as working:
        working.durable.checkpointer.supply("w", "a", 1)  # one that slept has records
        sleep(0.1)
        due = time.monotonic() + 2.0
        other.wake_at(delivery, now_utc() + ms(2_000))
        eventually(woke, describing="the sleeper wakes")
    assert -0.01 < ended[0] - due < 0.45


def test_which_queues_say_when() -> None:
    client = connect("redis://127.0.0.1:1")
    assert says_when(RedisStreamScheduler(client)) and says_when(RedisSetScheduler(client))
    assert not says_when(MemoryScheduler())


@pytest.mark.parametrize("kind", ["stream", "set"])
def test_an_idle_worker_asks_next_to_nothing(own_server: EmbeddedServer, namespace: str, kind: str) -> None:
    client = connect(own_server.url)
    queue = queue_of(kind, client, namespace)

    def body(run: Run) -> None:
        return None

    def sent() -> int:
        stats: Any = client.info("commandstats")
        names = ("evalsha", "eval", "xreadgroup", "blpop", "zadd", "xadd")
        return sum(int(stats.get(f"cmdstat_{name}", {"calls": 0})["calls"]) for name in names)

    durable: SplitDurable[Any] = SplitDurable(RedisCheckpointer(client, namespace), queue)
    stop = Event()
    running = Started(work, durable, body, stop=stop)
    sleep(0.5)
    before = sent()
    sleep(3.0)
    count = sent() - before
    stop.set()
    running.result(10)
    client.close()
    assert count <= 7, f"{count} commands in three seconds"


class TestDoorbell:
    """The set's waiting readers are rung for."""

    def test_a_reader_that_waits_is_rung_for(self, redis: Redis, namespace: str) -> None:
        mine = RedisSetScheduler(redis, namespace, poll=LONG)
        other = RedisSetScheduler(redis, namespace)
        for n in range(5):
            waiting = [Started(mine.next_ready, LONG), Started(mine.next_several, LONG, 3)]
            sleep(0.05)
            began = time.monotonic()
            other.make_ready(f"a{n}")
            other.make_ready(f"b{n}")
            first = waiting[0].result(5)
            (second,) = waiting[1].result(5)
            assert time.monotonic() - began < 0.6
            assert {first.workflow, second.workflow} == {f"a{n}", f"b{n}"}
            for one in (first, second):
                other.done(one)

    def test_a_reader_that_leaves_some_rings_for_the_next_one(self, redis: Redis, namespace: str) -> None:
        queue = RedisSetScheduler(redis, namespace, poll=LONG)
        waiting = [Started(queue.next_several, LONG, 2) for _ in range(3)]
        sleep(0.05)
        began = time.monotonic()
        redis.zadd(queue.schedule_key, {f"w{n}": 1.0 for n in range(5)})
        queue.make_ready("w0")
        found = [one.workflow for part in waiting for one in part.result(5)]
        assert sorted(found) == [f"w{n}" for n in range(5)]
        assert time.monotonic() - began < 0.7

    def test_there_is_one_token_at_the_most(self, redis: Redis, namespace: str) -> None:
        queue = RedisSetScheduler(redis, namespace)
        for n in range(6):
            queue.make_ready(f"w{n}")
            queue.wake_and_look()
        assert redis.llen(f"{{{queue.schedule_key}}}:bell") == 1
        assert len(queue.take_now(4)) == 4
        assert redis.llen(f"{{{queue.schedule_key}}}:bell") == 1
        assert len(queue.take_now(4)) == 2
        assert queue.take_now(4) == []

    def test_who_is_not_rung_for_looks_once_a_second(self, redis: Redis, namespace: str) -> None:
        queue = RedisSetScheduler(redis, namespace, poll=LONG)
        waiting = Started(queue.next_ready, LONG)
        sleep(0.05)
        redis.zadd(queue.schedule_key, {"w": 1.0})
        assert (waiting.result(2)).workflow == "w"

    def test_a_client_that_waits_long_for_replies_looks_as_often(
        self, server: EmbeddedServer, namespace: str
    ) -> None:
        client = connect(server.url, socket_timeout=15)
        queue = RedisSetScheduler(client, namespace, poll=LONG)
        waiting = Started(queue.next_ready, LONG)
        sleep(0.05)
        client.zadd(queue.schedule_key, {"w": 1.0})
        assert (waiting.result(2)).workflow == "w"
        client.close()

    def test_a_deadline_that_comes_sooner_is_waited_for(self, redis: Redis, namespace: str) -> None:
        queue, other = (RedisSetScheduler(redis, namespace) for _ in range(2))
        other.make_ready("later")
        (delivery,) = other.take_now(1)
        other.wake_at(delivery, now_utc() + timedelta(hours=1))
        other.make_ready("w")
        (delivery,) = other.take_now(1)
        waiting = Started(queue.next_ready, LONG)
        sleep(0.05)
        began = time.monotonic()
        other.wake_at(delivery, now_utc() + ms(300))
        found = waiting.result(5)
        assert found.workflow == "w" and 0.28 < time.monotonic() - began < 0.6

    def test_an_abandoned_delivery_is_seen_when_its_lease_ends(self, redis: Redis, namespace: str) -> None:
        queue = RedisSetScheduler(redis, namespace, lease=ms(1_500))
        queue.make_ready("w")
        began = time.monotonic()
        assert len(queue.take_now(1)) == 1
        assert (queue.next_ready(LONG)).workflow == "w"  # type: ignore[union-attr]
        assert 1.4 < time.monotonic() - began < 2.0

    def test_without_a_doorbell_it_looks_every_poll(self, redis: Redis, namespace: str) -> None:
        queue = RedisSetScheduler(redis, namespace, poll=ms(10), doorbell=False)
        waiting = Started(queue.next_ready, LONG)
        sleep(0.1)
        began = time.monotonic()
        redis.zadd(queue.schedule_key, {"w": 1.0})
        assert (waiting.result(5)).workflow == "w"
        assert time.monotonic() - began < 0.4
        with pytest.raises(TypeError, match="doorbell"):
            RedisSetScheduler(redis, doorbell=1)  # type: ignore[arg-type]

    @pytest.mark.parametrize("timeout", [0.1, 0.5, 5.0, None])
    def test_a_wait_is_as_long_as_asked_whatever_the_socket_timeout(
        self, server: EmbeddedServer, namespace: str, timeout: float | None
    ) -> None:
        client = connect(server.url, socket_timeout=timeout)
        queue = RedisSetScheduler(client, namespace)
        for within in (20, 500):
            started = time.monotonic()
            assert queue.next_ready(ms(within)) is None
            assert within / 1000 - 0.05 < time.monotonic() - started < within / 1000 + 0.4
        client.close()

    def test_a_server_that_forgets_its_scripts_is_told_again(
        self, own_server: EmbeddedServer, namespace: str
    ) -> None:
        client = connect(own_server.url)
        queue = RedisSetScheduler(client, namespace)
        waiting = Started(queue.next_ready, LONG)
        sleep(0.3)
        client.script_flush()
        queue.make_ready("w")
        assert (waiting.result(5)).workflow == "w"
        client.close()
