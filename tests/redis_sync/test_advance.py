# Generated from tests/redis_async/test_advance.py by twin.py. Edit that file.
"""One pass by hand, and what a worker says to store and queue at once when things go wrong."""

from __future__ import annotations

from typing import Any

import pytest
from durably_redis_sync import (
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
from durably_redis_sync.together import Closing, close_pass, open_pass, renew_all
from support import ms, same
from support_sync import Redis, eventually


@pytest.fixture(params=["memory", "stream", "set"])
def durable(request: pytest.FixtureRequest, redis: Redis, namespace: str) -> SplitDurable[Any]:
    if request.param == "memory":
        return SplitDurable(MemoryCheckpointer(), MemoryScheduler(lease=ms(300)))
    queue: Any = (
        RedisStreamScheduler(redis, namespace, lease=ms(300))
        if request.param == "stream"
        else RedisSetScheduler(redis, namespace, lease=ms(300), poll=ms(10))
    )
    queue.prepare()
    return SplitDurable(RedisCheckpointer(redis, namespace), queue)


def one() -> int:
    return 1


def body(run: Run) -> int:
    run.step("a", one, int)
    run.sleep("nap", ms(40))
    run.awaiting("go", same)
    return run.step("b", one, int)


def delivered(durable: SplitDurable[Any]) -> Delivery:
    def found() -> Delivery | None:
        durable.scheduler.wake_due()
        return durable.scheduler.next_ready(ms(10))

    delivery = eventually(found, describing="a wakeup")
    assert delivery is not None
    return delivery


def test_a_plain_loop_runs_a_workflow_pass_by_pass(durable: SplitDurable[Any]) -> None:
    durable.scheduler.make_ready("w")
    assert isinstance(advance(durable, body, delivered(durable)), Sleeping)
    assert advance(durable, body, delivered(durable)) == Blocked(waiting=("go",))
    durable.arrive("w", "go", 1)
    assert advance(durable, body, delivered(durable)) == Completed(1)
    assert durable.scheduler.next_ready(ms(5)) is None
    assert durable.scheduler.reclaim(ms(0)) is None


def test_a_held_workflow_is_looked_at_again(durable: SplitDurable[Any]) -> None:
    holder = durable.checkpointer.claim("w")
    assert holder is not None
    durable.scheduler.make_ready("w")
    assert advance(durable, body, delivered(durable), contended=ms(20)) is None
    durable.checkpointer.release(holder)
    assert (delivered(durable)).workflow == "w"


def test_a_failure_reaches_the_caller_and_leaves_the_delivery(durable: SplitDurable[Any]) -> None:
    def fails(run: Run) -> None:
        raise LookupError("no")

    durable.scheduler.make_ready("w")
    with pytest.raises(LookupError):
        advance(durable, fails, delivered(durable))
    assert durable.checkpointer.claim("w") is not None

    def again() -> Delivery | None:
        return durable.scheduler.reclaim(ms(300)) or durable.scheduler.next_ready(ms(5))

    assert eventually(again, describing="the delivery is taken again")


def test_a_lost_workflow_is_fenced(durable: SplitDurable[Any]) -> None:
    def loses(run: Run) -> object:
        durable.checkpointer.discard("w")
        return run.step("a", one, int)

    durable.scheduler.make_ready("w")
    with pytest.raises(Fenced):
        advance(durable, loses, delivered(durable))


def test_a_pass_out_of_budget_is_fenced(durable: SplitDurable[Any]) -> None:
    from support_sync import STOPPED, sleep

    def slow(run: Run) -> object:
        try:
            sleep(0.4)
        except STOPPED:
            pass
        return run.step("a", one, int)

    durable.scheduler.make_ready("w")
    with pytest.raises(Fenced):
        advance(durable, slow, delivered(durable), budget=ms(100))


def test_a_stream_that_ends_ends_the_sink_with_its_passes(durable: SplitDurable[Any]) -> None:
    ended: list[str] = []

    def ends(run: Run) -> None:
        run.step("a", one, int)
        ended.append(run.workflow)

    def deliveries() -> Any:
        for n in range(5):
            durable.scheduler.make_ready(f"w{n}")
            yield delivered(durable)

    passes(durable, ends, 2)(deliveries())
    assert sorted(ended) == [f"w{n}" for n in range(5)]
    for bad in (0, True, 1.5):
        with pytest.raises(ValueError, match="limit"):
            passes(durable, ends, bad)  # type: ignore[arg-type]
    for option in ("lease", "budget", "contended", "grace"):
        options: Any = {option: ms(0)}
        with pytest.raises(ValueError, match=option):
            passes(durable, ends, **options)


def test_waking_is_driven_by_moments(durable: SplitDurable[Any]) -> None:
    from durably_redis_sync import now_utc

    def moments() -> Any:
        yield now_utc() + ms(60_000)

    durable.scheduler.make_ready("w")
    durable.scheduler.wake_at(delivered(durable), now_utc() + ms(30_000))
    waking(durable.scheduler)(moments())
    if not isinstance(durable.scheduler, RedisSetScheduler):
        assert (delivered(durable)).workflow == "w"


def test_a_record_that_cannot_be_read_fails_the_pass_and_gives_the_claim_back(
    redis: Redis, namespace: str
) -> None:
    durable: SplitDurable[Any] = SplitDurable(
        RedisCheckpointer(redis, namespace), RedisStreamScheduler(redis, namespace)
    )
    durable.scheduler.prepare()
    redis.hset(f"{namespace}:{{w}}", "a", "nonsense")
    durable.scheduler.make_ready("w")
    with pytest.raises(Undecodable, match="'a'"):
        advance(durable, body, delivered(durable))
    holder = durable.checkpointer.claim("w")
    assert holder is not None
    with pytest.raises(Undecodable):
        resume(holder, durable.checkpointer, body)


def test_scripts_that_the_server_forgot_are_said_again_in_their_order(redis: Redis, namespace: str) -> None:
    durable: SplitDurable[Any] = SplitDurable(
        RedisCheckpointer(redis, namespace), RedisSetScheduler(redis, namespace)
    )
    durable.scheduler.make_ready("w")
    delivery = delivered(durable)
    redis.script_flush()
    opening = open_pass(durable, delivery, ms(60_000), ms(60_000))
    assert opening.holder is not None and opening.stands and opening.failure is None
    redis.script_flush()
    renewed = renew_all(durable, [(opening.holder, delivery)], ms(60_000))
    assert isinstance(renewed[0], Delivery)
    redis.script_flush()
    assert close_pass(durable, opening.holder, renewed[0], None) == Closing(None, None)
    assert durable.checkpointer.claim("w") is not None
    assert redis.zcard(f"{namespace}:schedule") == 0


class Broken:
    """A store and a queue of which each call fails."""

    def __getattr__(self, name: str) -> Any:
        def fails(*_: object) -> None:
            raise ConnectionError(name)

        return fails


def test_what_goes_wrong_at_the_end_is_told_for_each_half(namespace: str) -> None:
    broken: Any = Broken()
    half = SplitDurable[Any](MemoryCheckpointer(), MemoryScheduler())
    holder = half.checkpointer.claim("w")
    assert holder is not None
    with_store = SplitDurable[Any](MemoryCheckpointer(), broken)
    with_queue = SplitDurable[Any](broken, MemoryScheduler())
    delivery = Delivery("w", "1")
    from durably_redis_sync import now_utc

    for when in (None, now_utc()):
        closing = close_pass(with_store, holder, delivery, when)
        assert closing.not_released is None and isinstance(closing.not_answered, ConnectionError)
        closing = close_pass(with_queue, holder, delivery, when)
        assert isinstance(closing.not_released, ConnectionError) and closing.not_answered is None
    assert isinstance((renew_all(with_queue, [(holder, delivery)], ms(10)))[0], ConnectionError)
    assert (renew_all(half, [(holder, delivery)], ms(10)))[0] == delivery
    half.checkpointer.discard("w")
    assert (renew_all(half, [(holder, delivery)], ms(10)))[0] is None
    with pytest.raises(ConnectionError):
        open_pass(with_queue, delivery, ms(10), ms(10))


def test_a_server_that_refuses_everything_is_told_for_each_half(redis: Redis, namespace: str) -> None:
    store, queue = RedisCheckpointer(redis, namespace), RedisStreamScheduler(redis, namespace)
    durable: SplitDurable[Any] = SplitDurable(store, queue)
    queue.prepare()
    queue.make_ready("w")
    delivery = delivered(durable)
    opening = open_pass(durable, delivery, ms(60_000), ms(60_000))
    assert opening.holder is not None
    redis.set(store.pass_key("w"), "text")
    redis.set(queue.ready_key, "text")
    renewed = renew_all(durable, [(opening.holder, delivery)], ms(10))
    assert isinstance(renewed[0], Exception)
    closing = close_pass(durable, opening.holder, delivery, None)
    assert closing.not_released is not None and closing.not_answered is not None
    with pytest.raises(Exception, match="WRONGTYPE"):
        open_pass(durable, delivery, ms(10), ms(10))
