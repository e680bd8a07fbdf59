"""What threads make different: how this flavour waits, hung passes, Ctrl-C, forks, bodies with threads of their own.

Written by hand.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from durably.embedded import EmbeddedServer
from durably_redis_sync import (
    Completed,
    MemoryCheckpointer,
    MemoryScheduler,
    Pass,
    RedisCheckpointer,
    RedisSetScheduler,
    RedisStreamScheduler,
    Run,
    Sleeping,
    SplitDurable,
    claimed,
    resume,
    work,
)
from durably_redis_sync._concurrency import (
    Draining,
    Guard,
    Mailbox,
    Nursery,
    Slots,
    Work,
    shielded,
    wait_for,
)
from durably_redis_sync._gathering import Gathering
from redis import Redis
from support import ms, same
from support_sync import Event, Started, eventually


class TestWaits:
    def test_an_event_a_slot_and_a_mailbox_wait_as_long_as_asked(self) -> None:
        event, slots, box = Event(), Slots(1), Mailbox[int]()
        assert not wait_for(event, 0.01)
        event.set()
        assert wait_for(event, None)
        assert slots.acquire() and not slots.acquire(0.01)
        slots.release()
        assert slots.acquire(0.01)
        assert box.get(0.01) is None
        box.put(1)
        assert box.get() == 1

    def test_a_guard_lets_one_thread_in(self) -> None:
        guard, inside, most = Guard(), 0, 0

        def enter() -> None:
            nonlocal inside, most
            for _ in range(200):
                with guard:
                    inside += 1
                    most = max(most, inside)
                    inside -= 1

        with Nursery() as nursery:
            for _ in range(8):
                nursery.start(enter)
        assert most == 1

    def test_a_nursery_reuses_its_threads_groups_failures_and_ends_them(self) -> None:
        names: set[str] = set()

        def note() -> None:
            names.add(threading.current_thread().name)

        before = threading.active_count()
        with Nursery() as nursery:
            for _ in range(30):
                nursery.start(note)
                assert nursery.settle(5)
        assert len(names) == 1

        def boom(n: int) -> None:
            raise LookupError(n)

        failed = Event()
        with pytest.raises(ExceptionGroup) as caught, Nursery(failed) as nursery:
            nursery.start(boom, 1)
            nursery.start(boom, 2)
        assert len(caught.value.exceptions) == 2 and failed.is_set()
        eventually(lambda: threading.active_count() <= before, describing="the threads end")

    def test_a_nursery_raises_a_bodys_failure_and_leaving_bare(self) -> None:
        failed = Event()
        with pytest.raises(ExceptionGroup), Nursery(failed):
            raise LookupError
        assert failed.is_set()

        def leave() -> None:
            raise SystemExit(3)

        with pytest.raises(SystemExit), Nursery() as nursery:
            nursery.start(leave)
        with pytest.raises(KeyboardInterrupt), Nursery() as nursery:
            nursery.start(time.sleep, 60)
            raise KeyboardInterrupt

    def test_abandoned_calls_are_not_waited_for(self) -> None:
        gate = Event()
        with Nursery() as nursery:
            nursery.start(gate.wait, 30)
            assert not nursery.settle(0.01)
            nursery.cancel()
            assert not nursery.settle(0.01)
            nursery.abandon()
        gate.set()

    def test_work_that_was_stopped_does_not_begin(self) -> None:
        ran: list[int] = []
        one = Work()
        assert one.name == "nothing"
        one.cancel()
        one.run(ran.append, 1)
        other = Work()
        other.run(ran.append, 2)
        assert ran == [2] and "thread" in other.name

    def test_a_first_signal_drains_and_a_second_does_what_it_did(self) -> None:
        seen: list[int] = []
        before = signal.signal(signal.SIGTERM, lambda number, _: seen.append(number))
        try:
            stop = Event()
            with Draining(stop, True):
                os.kill(os.getpid(), signal.SIGTERM)
                assert stop.wait(5) and seen == []
                os.kill(os.getpid(), signal.SIGTERM)
            with Draining(stop, False):
                os.kill(os.getpid(), signal.SIGTERM)
            assert seen == [signal.SIGTERM] * 2
        finally:
            signal.signal(signal.SIGTERM, before)


class TestCtrlC:
    def test_during_a_write_the_record_is_written_first(self) -> None:
        class Slow(MemoryCheckpointer):
            def record(self, holder: Pass, key: str, value: object, **asked: Any) -> Any:
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(0.05)
                return super().record(holder, key, value, **asked)

        store = Slow()

        def body(run: Run) -> None:
            run.step("a", lambda: 1, same)
            raise AssertionError("the pass goes on")

        with pytest.raises(KeyboardInterrupt):
            resume(claimed(store, "w"), store, body)
        assert store.load("w") == {"a": 1}

    def test_a_second_one_does_not_wait(self) -> None:
        def hangs() -> None:
            for _ in range(2):
                os.kill(os.getpid(), signal.SIGINT)
            raise AssertionError("it waits")

        with pytest.raises(KeyboardInterrupt):
            shielded(hangs)

    def test_inside_a_blocking_read_the_client_stays_usable(self, redis: Redis, namespace: str) -> None:
        queue = RedisStreamScheduler(redis, namespace)
        queue.prepare()
        main = threading.get_ident()

        def interrupt() -> None:
            time.sleep(0.1)
            signal.pthread_kill(main, signal.SIGINT)

        Started(interrupt)
        started = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            queue.next_ready(timedelta(seconds=20))
        assert time.monotonic() - started < 5
        queue.make_ready("w")
        delivery = queue.next_ready(ms(500))
        assert delivery is not None and delivery.workflow == "w"

    def test_inside_a_step_nothing_is_recorded_and_the_pass_can_be_taken_again(
        self, redis: Redis, namespace: str
    ) -> None:
        store = RedisCheckpointer(redis, namespace)

        def effect() -> int:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(5)
            return 1

        def body(run: Run) -> None:
            run.step("a", effect, same)

        holder = claimed(store, "w")
        with pytest.raises(KeyboardInterrupt):
            resume(holder, store, body)
        store.release(holder)
        assert store.load("w") == {}
        assert store.claim("w") is not None


@pytest.fixture(params=["memory", "stream", "set"])
def durable(request: pytest.FixtureRequest, redis: Redis, namespace: str) -> SplitDurable[Any]:
    if request.param == "memory":
        return SplitDurable(MemoryCheckpointer(), MemoryScheduler(lease=ms(300)))
    store = RedisCheckpointer(redis, namespace)
    if request.param == "stream":
        return SplitDurable(store, RedisStreamScheduler(redis, namespace, lease=ms(300)))
    return SplitDurable(store, RedisSetScheduler(redis, namespace, lease=ms(300), poll=ms(10)))


def test_a_hung_pass_is_given_up_and_its_thread_named_while_others_go_on(
    durable: SplitDurable[Any], caplog: pytest.LogCaptureFixture
) -> None:
    gate, stop = Event(), Event()
    names: list[str] = []
    ended: list[str] = []
    tries: list[str] = []

    def body(run: Run) -> None:
        tries.append(run.workflow)
        if run.workflow == "hung" and tries.count("hung") == 1:
            names.append(threading.current_thread().name)
            gate.wait(30)
            run.step("late", lambda: ended.append("late"), same)
        ended.append(run.workflow)

    with caplog.at_level(logging.WARNING, "durably.worker"):
        working = Started(work, durable, body, budget=ms(200), limit=2, within=ms(50), tick=ms(10), stop=stop)
        durable.scheduler.make_ready("hung")
        eventually(lambda: names, describing="the pass hangs")
        for n in range(5):
            durable.scheduler.make_ready(f"w{n}")
        eventually(lambda: "hung" in ended and len(ended) == 6, describing="all are done")
    assert any(names[0] in line and "'hung'" in line for line in caplog.messages)
    gate.set()
    stop.set()
    working.result()
    assert "late" not in ended


def test_a_pass_that_outlasts_the_grace_is_handed_on_at_once(durable: SplitDurable[Any]) -> None:
    gate, began, stop = Event(), Event(), Event()
    wrote: list[str] = []

    def body(run: Run) -> None:
        began.set()
        gate.wait(30)
        run.step("late", lambda: wrote.append("late"), same)

    durable.scheduler.prepare()
    durable.scheduler.make_ready("w")
    working = Started(work, durable, body, within=ms(50), stop=stop, grace=ms(100))
    assert began.wait(5)
    stop.set()
    working.result(5)
    durable.scheduler.wake_due(durable_now())
    delivery = durable.scheduler.next_ready(ms(100))
    assert delivery is not None and delivery.workflow == "w"
    holder = durable.checkpointer.claim("w")
    assert holder is not None
    gate.set()
    time.sleep(0.05)
    assert wrote == [] and durable.checkpointer.load("w") == {}


def durable_now() -> Any:
    from durably_redis_sync import now_utc

    return now_utc()


def test_a_body_may_use_its_run_from_threads_of_its_own(redis: Redis, namespace: str) -> None:
    store = RedisCheckpointer(redis, namespace)
    runs: list[int] = []

    def body(run: Run) -> list[int]:
        def one(n: int) -> int:
            def effect() -> int:
                runs.append(n)
                return n

            got: int = run.step(f"s{n}", effect, same)
            if n % 10 == 3:
                run.sleep(f"nap{n}", timedelta(milliseconds=100 + n))
            return got

        with ThreadPoolExecutor(8) as pool:
            return list(pool.map(one, range(40)))

    holder = claimed(store, "w")
    outcome: Any = resume(holder, store, body)
    assert isinstance(outcome, Sleeping) and outcome.key == "nap3"

    def completed() -> bool:
        return resume(holder, store, body) == Completed(list(range(40)))

    eventually(completed, describing="every nap is over")
    assert sorted(runs) == list(range(40))


def test_threads_that_use_one_name_are_told(redis: Redis, namespace: str) -> None:
    store = RedisCheckpointer(redis, namespace)
    runs: list[int] = []
    refused: list[ValueError] = []

    def body(run: Run) -> None:
        def one(_: int) -> None:
            try:
                run.step("same", lambda: runs.append(1), same)
            except ValueError as error:
                refused.append(error)

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(one, range(8)))

    resume(claimed(store, "w"), store, body)
    assert len(runs) == 1 and len(refused) == 7


def test_the_doubles_stay_whole_under_threads() -> None:
    store, queue = MemoryCheckpointer(), MemoryScheduler()
    taken: list[str] = []
    claims: list[Pass] = []
    keys: list[str] = []

    def act(n: int) -> None:
        for m in range(50):
            queue.make_ready(f"w{n}-{m}")
            keys.append(store.append("inbox", m).key)
            holder = store.claim(f"c{m}")
            if holder is not None:
                claims.append(holder)
            delivery = queue.next_ready(ms(1))
            if delivery is not None:
                taken.append(delivery.workflow)
                queue.done(delivery)

    with Nursery() as nursery:
        for n in range(8):
            nursery.start(act, n)
    while (left := queue.next_ready(ms(1))) is not None:
        taken.append(left.workflow)
    assert len(taken) == len(set(taken)) == 400
    assert len(keys) == len(set(keys)) == 400
    assert len(claims) == len({one.workflow for one in claims}) == 50


_FORKED = """
import os, sys, time
from datetime import timedelta
from redis import Redis
from durably_redis_sync import RedisCheckpointer, RedisStreamScheduler, RedisSetScheduler, claimed

url, namespace = sys.argv[1:]
redis = Redis.from_url(url, decode_responses=True)
store, queue = RedisCheckpointer(redis, namespace), RedisStreamScheduler(redis, namespace)
in_set = RedisSetScheduler(redis, namespace)
queue.prepare()
store.record(claimed(store, "parent"), "a", 1)
names = [queue.consumer]
children = []
for n in range(3):
    there, here = os.pipe()
    pid = os.fork()
    if pid == 0:
        store.record(claimed(store, f"child{n}"), "a", n)
        queue.make_ready(f"child{n}")
        in_set.make_ready(f"child{n}")
        assert queue.next_ready(timedelta(seconds=5)) is not None
        assert in_set.next_ready(timedelta(seconds=5)) is not None
        os.write(here, queue.consumer.encode())
        os._exit(0)
    children.append(pid)
    os.close(here)
    names.append(os.read(there, 100).decode())
for pid in children:
    assert os.waitpid(pid, 0)[1] == 0
assert len(set(names)) == 4, names
pending = redis.xpending_range(queue.ready_key, queue.group, "-", "+", 10)
assert len({one["consumer"] for one in pending}) == 3, pending
store.record(claimed(store, "after"), "a", 1)
print("fine")
"""


def test_a_store_made_before_a_fork_works_after_it(server: EmbeddedServer, namespace: str) -> None:
    said = subprocess.run(
        [sys.executable, "-c", _FORKED, server.url, namespace], capture_output=True, text=True, timeout=60
    )
    assert said.stdout == "fine\n", said.stderr


_BESIDE = """
import sys, threading, time
from datetime import timedelta
from redis import Redis
from durably_redis_sync import RedisCheckpointer, RedisStreamScheduler, SplitDurable, work

redis = Redis.from_url(sys.argv[1], decode_responses=True)
durable = SplitDurable(RedisCheckpointer(redis, sys.argv[2]), RedisStreamScheduler(redis, sys.argv[2]))
done = threading.Event()

def body(run):
    run.step("a", lambda: 1, int)
    done.set()

threading.Thread(target=work, args=(durable, body)).start()
durable.scheduler.make_ready("w")
assert done.wait(20)
print("main ends", flush=True)
"""


def test_a_worker_beside_the_main_thread_ends_with_it(server: EmbeddedServer, namespace: str) -> None:
    said = subprocess.run(
        [sys.executable, "-c", _BESIDE, server.url, namespace], capture_output=True, text=True, timeout=60
    )
    assert (said.returncode, said.stdout) == (0, "main ends\n"), said.stderr


def test_callers_that_gather_share_flushes_and_none_is_lost() -> None:
    sizes: list[int] = []

    def flush(said: list[int]) -> list[int]:
        sizes.append(len(said))
        time.sleep(0.005)
        if 13 in said:
            raise LookupError("unlucky")
        return [one * 2 for one in said]

    gathering: Gathering[int, int] = Gathering(flush)
    with ThreadPoolExecutor(50) as pool:
        assert list(pool.map(gathering.say, range(20, 220))) == [n * 2 for n in range(20, 220)]
    assert len(sizes) < 60
    with pytest.raises(LookupError):
        gathering.say(13)

    main = threading.get_ident()
    busy = [Started(gathering.say, n) for n in range(2)]

    def interrupt() -> None:
        time.sleep(0.002)
        signal.pthread_kill(main, signal.SIGINT)

    for _ in range(20):
        busy += [Started(gathering.say, n) for n in range(4)]
        try:
            interrupting = Started(interrupt)
            gathering.say(5)
            interrupting.result(5)
            time.sleep(0.01)
        except KeyboardInterrupt:
            pass
    for one in busy:
        assert one.result(5) is not None
    assert gathering.say(1) == 2
