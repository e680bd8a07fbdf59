# Generated from tests/redis_async/test_partitioned.py by twin.py. Edit that file.
"""One queue over several: fair, without a limit of one node, and growing while it runs."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from durably_redis_sync import (
    CheckpointGone,
    Completed,
    PartitionedScheduler,
    RedisCheckpointer,
    RedisSetScheduler,
    RedisStreamScheduler,
    Run,
    SplitDurable,
    advance,
    now_utc,
    sweep,
    work,
)
from support import ms
from support_sync import Event, Redis, Started, eventually, sleep, together


def made(
    redis: Redis, namespace: str, kind: str, partitions: int = 4, **options: Any
) -> PartitionedScheduler:
    make = PartitionedScheduler.of_streams if kind == "stream" else PartitionedScheduler.of_sets
    return make(redis, namespace, partitions, **{"lease": ms(2000), **options})


@pytest.fixture(params=["stream", "set"])
def queue(request: pytest.FixtureRequest, redis: Redis, namespace: str) -> Iterator[PartitionedScheduler]:
    """A queue of four streams, and one of four sets."""
    scheduler = made(redis, namespace, request.param)
    scheduler.prepare()
    yield scheduler
    scheduler.rest()


class TestReading:
    def test_every_partition_is_read_and_each_wakeup_given_once(self, queue: PartitionedScheduler) -> None:
        wanted = [f"w{n}" for n in range(40)]
        for one in wanted:
            queue.make_ready(one)
        assert len({id(queue.home(one)) for one in wanted}) == 4
        taken: list[Any] = []
        while len(taken) < 40:
            taken += queue.next_several(ms(500), 7)
        assert sorted(one.workflow for one in taken) == sorted(wanted)
        for one in taken:
            queue.done(one)
        assert queue.next_several(ms(50), 7) == []
        assert queue.reclaim(ms(1)) is None

    def test_a_long_partition_does_not_starve_the_others(self, queue: PartitionedScheduler) -> None:
        first = queue.home("w0")
        crowd = [name for name in (f"w{n}" for n in range(2000)) if queue.home(name) is first][:300]
        lonely = [
            next(name for name in (f"x{n}" for n in range(200)) if queue.home(name) is one)
            for one in queue.partitions
            if one is not first
        ]
        for one in (*crowd, *lonely):
            queue.make_ready(one)
        taken = queue.next_several(ms(500), 12)
        assert len(taken) == 12 and {one.workflow for one in taken} >= set(lonely)

    def test_a_reader_that_waits_is_given_what_comes_anywhere(self, queue: PartitionedScheduler) -> None:
        for one in queue.partitions:
            name = next(name for name in (f"w{n}" for n in range(200)) if queue.home(name) is one)
            waiting = Started(queue.next_ready, ms(5000))
            sleep(0.15)
            began = time.monotonic()
            queue.make_ready(name)
            delivery = waiting.result()
            assert delivery is not None and delivery.workflow == name
            assert time.monotonic() - began < 0.5
            queue.done(delivery)
        assert queue.rest() == []

    def test_what_comes_while_nobody_asks_is_given_the_next_time(self, queue: PartitionedScheduler) -> None:
        names = [
            next(name for name in (f"w{n}" for n in range(200)) if queue.home(name) is one)
            for one in queue.partitions
        ]
        taken: list[Any] = []
        waiting = Started(queue.next_several, ms(3000), 1)
        sleep(0.15)
        together(*[lambda one=one: queue.make_ready(one) for one in names])
        taken += waiting.result()
        while len(taken) < 4:
            found = queue.next_several(ms(500), 1)
            assert found, "one is lost"
            taken += found
        assert sorted(one.workflow for one in taken) == sorted(names)

    def test_what_came_for_nobody_is_not_left_behind_while_others_come(
        self, redis: Redis, namespace: str
    ) -> None:
        queue = made(redis, namespace, "set")
        names = [
            next(name for name in (f"w{n}" for n in range(200)) if queue.home(name) is one)
            for one in queue.partitions
        ]
        waiting = Started(queue.next_several, ms(3000), 1)
        sleep(0.15)
        queue.make_ready(names[0])
        taken = {one.workflow for one in waiting.result()}
        for one in names[1:]:  # reads that nobody waits for any more take these
            queue.make_ready(one)
        sleep(0.2)
        for n in range(8):
            queue.make_ready(f"more{n}")
            taken |= {one.workflow for one in queue.next_several(ms(500), 1)}
        assert taken >= set(names)
        queue.rest()


class TestOwing:
    def test_deliveries_stay_with_their_partition(self, queue: PartitionedScheduler) -> None:
        queue.make_ready("w")
        delivery = queue.next_ready(ms(500))
        assert delivery is not None
        delivery = queue.extend(delivery, ms(2000))
        queue.wake_at(delivery, now_utc() + ms(80))
        assert queue.available(10) == 0
        sleep(0.12)
        queue.wake_due()
        again = queue.next_ready(ms(500))
        assert again is not None and again.workflow == "w"
        queue.done(again)
        assert queue.available(10) == 0

    def test_an_abandoned_one_is_taken_over(self, redis: Redis, namespace: str, queue: Any) -> None:
        queue.make_ready("w")
        assert queue.next_ready(ms(500)) is not None
        kind = "stream" if isinstance(queue.partitions[0], RedisStreamScheduler) else "set"
        short = made(redis, namespace + "x", kind, lease=ms(50))
        short.prepare()
        short.make_ready("v")
        assert short.next_ready(ms(500)) is not None
        sleep(0.1)
        taken = short.reclaim(ms(50)) or short.next_ready(ms(500))
        assert taken is not None and taken.workflow == "v"
        short.done(taken)
        short.rest()

    def test_a_cancelled_one_is_cancelled_in_every_partition(self, redis: Redis, namespace: str) -> None:
        for kind in ("stream", "set"):
            before, after = (made(redis, namespace + kind, kind, spread=one) for one in (1, 4))
            after.prepare()
            names = [f"w{n}" for n in range(8)]
            for one in names:
                before.make_ready(one)
                after.make_ready(one)
                after.cancel(one)
            assert after.next_several(ms(50), 100) == []
            after.rest()

    def test_another_queues_delivery_is_refused(self, queue: PartitionedScheduler, redis: Redis) -> None:
        alone = RedisSetScheduler(redis, "alone" + queue.partitions[0].namespace)
        alone.make_ready("w")
        delivery = alone.next_ready(ms(500))
        assert delivery is not None
        with pytest.raises(ValueError, match="another queue"):
            queue.done(delivery)


def waits(run: Run) -> str:
    """Waits for its input, then for a value."""
    run.input(str)
    return run.awaiting("go", str)


def naps(run: Run) -> str:
    run.sleep("nap", ms(400))
    return "awake"


def passes_of(durable: Any, body: Any) -> list[tuple[str, Any]]:
    """One pass after the other until no wakeup is there: whose, and what it came to."""
    found = []
    durable.scheduler.wake_due()
    while taken := durable.scheduler.take_now(1):
        found.append((taken[0].workflow, advance(durable, body, taken[0])))
    return found


def once(durable: Any) -> Any:
    """The sweep once around, after everything has settled."""
    sleep(0.005)
    swept: list[Any] = []
    while not swept or swept[-1].cursor != "0":
        swept.append(sweep(durable, settled=ms(1)))
    return {
        name: tuple(sorted(one for each in swept for one in getattr(each, name)))
        for name in ("woken", "asleep", "parked", "consumers")
    }


def lose(redis: Redis, queue: PartitionedScheduler) -> None:
    """What the partitions hold is lost."""
    for one in queue.partitions:
        if isinstance(one, RedisStreamScheduler):
            redis.delete(one.sleeping_key)
            redis.xtrim(one.ready_key, maxlen=0)
        else:
            redis.delete(one.schedule_key)


NAMES = tuple(f"w{n}" for n in range(12))


class TestParking:
    def test_what_is_gone_is_parked_where_it_came_from(
        self, queue: PartitionedScheduler, redis: Redis, namespace: str
    ) -> None:
        durable: Any = SplitDurable(RedisCheckpointer(redis, namespace), queue)
        for one in NAMES:
            durable.start(one, "in")
        assert len(passes_of(durable, waits)) == 12
        for one in NAMES[:6]:
            redis.delete(durable.checkpointer.hash_key(one))
        for one in NAMES:
            durable.arrive(one, "go", "value")
        ended = []
        while taken := queue.take_now(1):
            try:
                outcome = advance(durable, waits, taken[0])
                ended.append((taken[0].workflow, outcome))
            except CheckpointGone:
                pass
        assert sorted(ended) == sorted((one, Completed("value")) for one in NAMES[6:])
        assert sorted(queue.parked()) == sorted(NAMES[:6])
        for one in NAMES[:6]:
            assert one in queue.home(one).parked()
            assert queue.unpark(one) and not queue.unpark(one)
        assert queue.parked() == {}
        assert sorted(one.workflow for one in queue.take_now(20)) == sorted(NAMES[:6])
        queue.cancel("w0")

    def test_a_sleeper_of_which_nothing_is_known(
        self, queue: PartitionedScheduler, redis: Redis, namespace: str
    ) -> None:
        durable: Any = SplitDurable(RedisCheckpointer(redis, namespace), queue)
        queue.make_ready("w")
        (delivery,) = queue.take_now(1)
        delivery = queue.extend(delivery, ms(500))
        queue.wake_at(delivery, now_utc() - ms(5))
        queue.wake_due()
        (delivery,) = queue.take_now(1)
        delivery = queue.extend(delivery, ms(500))
        with pytest.raises(CheckpointGone):
            advance(durable, naps, delivery)
        assert list(queue.parked()) == ["w"]

    def test_one_that_was_parked_before_the_queue_grew(self, redis: Redis, namespace: str) -> None:
        for kind in ("stream", "set"):
            small, grown = (made(redis, namespace + kind, kind, spread=one) for one in (1, 4))
            name = next(one for one in NAMES if grown.home(one) is not grown.partitions[0])
            grown.prepare()
            small.make_ready(name)
            (delivery,) = small.take_now(1)
            small.park(delivery, "why")
            assert list(grown.parked()) == [name]
            assert grown.unpark(name)
            assert [one.workflow for one in grown.take_now(5)] == [name]


class TestSweeping:
    def test_what_the_partitions_lost_is_asked_for_at_home(
        self, queue: PartitionedScheduler, redis: Redis, namespace: str
    ) -> None:
        durable: Any = SplitDurable(RedisCheckpointer(redis, namespace), queue)
        for one in NAMES:
            durable.start(one, "in")
        passes_of(durable, naps)
        nothing = {"woken": (), "asleep": (), "parked": (), "consumers": ()}
        assert once(durable) == nothing
        lose(redis, queue)
        assert once(durable) == {**nothing, "asleep": tuple(sorted(NAMES))}
        assert once(durable) == nothing
        for one in NAMES[:3]:
            redis.delete(durable.checkpointer.hash_key(one))
        assert once(durable) == {**nothing, "parked": NAMES[:3]}
        assert sorted(queue.parked()) == sorted(NAMES[:3])
        lose(redis, queue)
        sleep(0.45)
        assert once(durable) == {**nothing, "woken": tuple(sorted(NAMES[3:]))}
        assert once(durable) == nothing
        for one in NAMES[3:]:
            assert queue.home(one).available(20) > 0
        ended = passes_of(durable, naps)
        assert sorted(ended) == sorted((one, Completed("awake")) for one in NAMES[3:])

    def test_one_that_an_old_home_holds_is_held(self, redis: Redis, namespace: str) -> None:
        for kind in ("stream", "set"):
            small, grown = (made(redis, namespace + kind, kind, spread=one) for one in (1, 4))
            grown.prepare()
            old, new = (
                SplitDurable(RedisCheckpointer(redis, namespace + kind), one) for one in (small, grown)
            )
            name = next(one for one in NAMES if grown.home(one) is not grown.partitions[0])
            old.start(name, "in")
            passes_of(old, waits)
            old.checkpointer.supply(name, "go", "value")
            small.make_ready(name)
            assert (once(new))["woken"] == (), "its wakeup waits where it was queued"
            (delivery,) = grown.take_now(1)
            assert (once(new))["woken"] == (), "it is out"
            grown.done(delivery)
            assert (once(new))["woken"] == (name,)
            assert grown.home(name).available(5) == 1
            (delivery,) = grown.take_now(1)
            grown.done(delivery)
            alone = SplitDurable(RedisCheckpointer(redis, namespace + kind), small.partitions[0])
            alone.scheduler.cancel(name)  # by one who knows of no other partition
            assert (once(new))["woken"] == (), "cancelled stays cancelled"
            old.checkpointer.append(name, "mail")
            assert (once(new))["woken"] == (name,)

    def test_workers_sweep_all_partitions_by_themselves(
        self, queue: PartitionedScheduler, redis: Redis, namespace: str
    ) -> None:
        durable: Any = SplitDurable(RedisCheckpointer(redis, namespace), queue)
        ended: set[str] = set()

        def body(run: Run) -> None:
            run.sleep("nap", ms(1500))
            ended.add(run.workflow)

        for one in NAMES:
            durable.start(one, "in")
        assert len(passes_of(durable, body)) == 12
        lose(redis, queue)
        stop = Event()
        options: Any = {"stop": stop, "tick": ms(10), "sweep_every": ms(30)}
        working = Started(work, durable, body, **options)

        def all_ended() -> bool:
            return ended == set(NAMES)

        eventually(all_ended, describing="the sweep puts each deadline back")
        stop.set()
        working.result()


class TestMaking:
    def test_what_does_not_fit_is_refused(self, redis: Redis, namespace: str) -> None:
        one, other = RedisStreamScheduler(redis, namespace), RedisStreamScheduler(redis, namespace + "b")
        with pytest.raises(ValueError, match="one partition or more"):
            PartitionedScheduler([])
        with pytest.raises(ValueError, match="namespace of its own"):
            PartitionedScheduler([one, one])
        with pytest.raises(ValueError, match="one lease"):
            PartitionedScheduler([one, RedisStreamScheduler(redis, namespace + "b", lease=ms(5))])
        with pytest.raises(TypeError, match="Redis scheduler"):
            PartitionedScheduler(["a"])  # type: ignore[list-item]
        for spread in (0, 3, True, "2"):
            with pytest.raises(ValueError, match="spread"):
                PartitionedScheduler([one, other], spread=spread)  # type: ignore[arg-type]


class Fleet:
    """A worker that counts how often each workflow ends."""

    def __init__(
        self, redis: Redis, namespace: str, queue: PartitionedScheduler, ended: Counter[str]
    ) -> None:
        self.durable = SplitDurable(RedisCheckpointer(redis, namespace), queue)
        self.ended = ended
        self.stop = Event()

    def body(self, run: Run) -> None:
        def one() -> int:
            return 1

        run.step("a", one, int)
        run.sleep("nap", ms(20))
        run.step("b", one, int)
        self.ended[run.workflow] += 1

    def __enter__(self) -> Fleet:
        self.running = Started(work, self.durable, self.body, stop=self.stop, tick=ms(10), contended=ms(30))
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self.running.result(30)


@pytest.mark.parametrize("kind", ["stream", "set"])
def test_it_grows_from_two_to_four_under_load(redis: Redis, namespace: str, kind: str) -> None:
    ended: Counter[str] = Counter()

    def queue(partitions: int, spread: int) -> PartitionedScheduler:
        return made(redis, namespace, kind, partitions, spread=spread)

    def submit(queue: PartitionedScheduler, names: list[str]) -> None:
        for one in names:
            queue.make_ready(one)
            sleep(0.002)

    names = [f"w{n}" for n in range(150)]
    with Fleet(redis, namespace, queue(2, 2), ended):
        submit(queue(2, 2), names[:50])
        with Fleet(redis, namespace, queue(4, 2), ended):
            # the old worker reads two partitions, the new one four; then submitters begin to use four
            old = Started(submit, queue(4, 2), names[50:100])
            submit(queue(4, 4), names[100:])
            old.result()

            def all_ended() -> bool:
                return set(ended) == set(names)

            eventually(all_ended, describing="every workflow ends", within=20)
    lengths = [one.available(10) for one in queue(4, 4).partitions]
    assert lengths == [0, 0, 0, 0]
