# Generated from tests/redis_async/test_behind.py by twin.py. Edit that file.
"""A server that has less than another had accepted when a pass ends, as one that took over may: no workflow is ended,
put to sleep or left waiting over records that are not there."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest
from durably_redis_sync import (
    Completed,
    Delivery,
    RedisCheckpointer,
    RedisDurable,
    RedisSetScheduler,
    RedisStreamScheduler,
    Run,
    SplitDurable,
    advance,
    sweep,
)
from durably_redis_sync._client import is_cluster, send
from durably_redis_sync.interfaces import claimed
from support import ms, same
from support_sync import Redis, eventually


@pytest.fixture(params=["stream", "set"])
def durable(request: pytest.FixtureRequest, redis: Redis, namespace: str) -> Any:
    """Each queue, as one pair with its store where there is one server."""
    queue: Any
    if request.param == "stream":
        queue = RedisStreamScheduler(redis, namespace, lease=ms(60_000))
    else:
        queue = RedisSetScheduler(redis, namespace, lease=ms(60_000), poll=ms(5))
    queue.prepare()
    store = RedisCheckpointer(redis, namespace)
    return SplitDurable(store, queue) if is_cluster(redis) else RedisDurable(store, queue)


def next_delivery(durable: Any) -> Delivery:
    def look() -> Any:
        durable.scheduler.wake_due()
        return durable.scheduler.next_ready(ms(5))

    found: Delivery = eventually(look, describing="a wakeup comes")
    return found


def is_queued(durable: Any) -> bool:
    durable.scheduler.wake_due()
    return durable.scheduler.next_ready(ms(5)) is not None


class Server:
    """What the server has of workflow `w`, kept and brought back: as if nothing later had reached it."""

    def __init__(self, redis: Redis, store: RedisCheckpointer) -> None:
        self.redis: Any = redis
        self.store = store
        self.kept: list[tuple[str, dict[str, str]]] = []

    def keep(self) -> None:
        """From now on nothing reaches the server that takes over."""
        keys = (self.store.hash_key("w"), self.store.pass_key("w"))
        self.kept = [(key, self.redis.hgetall(key)) for key in keys]

    def take_over(self) -> None:
        """With what was kept."""
        for key, fields in self.kept:
            self.redis.delete(key)
            if fields:
                self.redis.hset(key, mapping=fields)
                self.redis.pexpire(key, 60_000)


class Body:
    """Two steps, after the first of which nothing more reaches the server that takes over after the second; then what
    `ends` does."""

    def __init__(self, server: Server, ends: Callable[[Run], Any]) -> None:
        self.server = server
        self.ends = ends
        self.ran: list[str] = []
        self.over = False

    def step(self, run: Run, name: str) -> None:
        def effect() -> str:
            self.ran.append(name)
            return name

        run.step(name, effect, str)

    def __call__(self, run: Run) -> object:
        self.step(run, "a")
        if not self.over:
            self.server.keep()
        self.step(run, "b")
        if not self.over:
            self.over = True
            self.server.take_over()
        return self.ends(run)


def completes(run: Run) -> object:
    return "done"


def sleeps(run: Run) -> object:
    if "nap" not in run.recorded:
        run.sleep("nap", ms(60_000))
    return "done"


def waits(run: Run) -> object:
    return run.awaiting("go", same)


@pytest.mark.parametrize("ends", [completes, waits])
def test_the_next_pass_goes_on_from_what_there_is(
    durable: Any, redis: Redis, ends: Any, caplog: pytest.LogCaptureFixture
) -> None:
    body = Body(Server(redis, durable.checkpointer), ends)
    durable.scheduler.make_ready("w")
    with caplog.at_level(logging.WARNING, "durably.worker"):
        advance(durable, body, next_delivery(durable))
        assert list(durable.checkpointer.load("w")) == ["a"]
        again = advance(durable, body, next_delivery(durable))
    assert [one for one in caplog.messages if "'w'" in one and "fewer records" in one]
    assert list(durable.checkpointer.load("w")) == ["a", "b"] and body.ran == ["a", "b", "b"]
    assert isinstance(again, Completed) == (ends is completes)
    assert not is_queued(durable) and not durable.scheduler.parked()
    if ends is waits:
        durable.arrive("w", "go", 7)
        assert advance(durable, body, next_delivery(durable)) == Completed(7)


def test_a_sleep_that_is_not_recorded_is_recorded_again(durable: Any, redis: Redis) -> None:
    server = Server(redis, durable.checkpointer)
    recorded: list[bool] = []

    def body(run: Run) -> object:
        recorded.append("nap" in run.recorded)
        run.sleep("nap", ms(20))
        return "done"

    durable.scheduler.make_ready("w")
    delivery = next_delivery(durable)

    def first(run: Run) -> object:
        server.keep()
        try:
            body(run)
        finally:
            server.take_over()
        return None

    advance(durable, first, delivery)
    assert durable.checkpointer.load("w") == {} and is_queued(durable)


def test_a_claim_that_is_not_there_is_no_reason_to_forget_the_workflow(durable: Any, redis: Redis) -> None:
    """An earlier pass is all that the server that took over knows of."""
    server = Server(redis, durable.checkpointer)
    body = Body(server, waits)
    body.over = True
    durable.scheduler.make_ready("w")
    advance(durable, body, next_delivery(durable))
    server.keep()

    def second(run: Run) -> object:
        run.awaiting("go", same)
        body.step(run, "c")
        server.take_over()
        return "done"

    durable.arrive("w", "go", 1)
    server.keep()
    assert advance(durable, second, next_delivery(durable)) == Completed("done")
    assert list(durable.checkpointer.load("w")) == ["a", "b", "go"]

    def third(run: Run) -> object:
        body.step(run, "c")
        return "done"

    assert advance(durable, third, next_delivery(durable)) == Completed("done")
    assert body.ran == ["a", "b", "c", "c"] and not is_queued(durable)


def test_one_of_which_nothing_is_left_is_parked(durable: Any, redis: Redis) -> None:
    server = Server(redis, durable.checkpointer)

    def body(run: Run) -> object:
        Body(server, completes).step(run, "a")
        redis.delete(durable.checkpointer.hash_key("w"), durable.checkpointer.pass_key("w"))
        return "done"

    durable.scheduler.make_ready("w")
    advance(durable, body, next_delivery(durable))
    ran: list[str] = []

    def never(run: Run) -> object:
        ran.append(run.workflow)
        return None

    with pytest.raises(Exception, match="0 of 1"):
        advance(durable, never, next_delivery(durable))
    parked = durable.scheduler.parked()
    assert "0 of 1" in json.loads(parked["w"])["reason"] and not ran and not is_queued(durable)


@pytest.mark.parametrize("goes", ["cancelled", "deleted"])
def test_what_was_called_off_meanwhile_stays_so(durable: Any, redis: Redis, goes: str) -> None:
    def ends(run: Run) -> object:
        if goes == "cancelled":
            durable.scheduler.cancel("w")
        else:
            durable.delete("w")
        return "done"

    body = Body(Server(redis, durable.checkpointer), ends)
    durable.scheduler.make_ready("w")
    advance(durable, body, next_delivery(durable))
    assert not is_queued(durable) and body.ran == ["a", "b"]


def test_a_wakeup_that_could_not_be_asked_for_is_the_sweeps(
    durable: Any, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(workflow: str, since: int) -> Any:
        raise ConnectionError("no")

    monkeypatch.setattr(type(durable.scheduler), "asking_again", lambda self, *given: refuses(*given))
    body = Body(Server(redis, durable.checkpointer), completes)
    durable.scheduler.make_ready("w")
    assert advance(durable, body, next_delivery(durable)) == Completed("done")
    assert not is_queued(durable)

    def swept() -> bool:
        return "w" in (sweep(durable, settled=ms(1))).woken

    # a record's time, and the claim's last sign of life, must be past: it ends with the release
    eventually(swept, describing="the sweep finds it")
    assert advance(durable, body, next_delivery(durable)) == Completed("done")
    assert list(durable.checkpointer.load("w")) == ["a", "b"]


def test_a_claim_given_back_twice_is_told_the_same(redis: Redis, namespace: str) -> None:
    store = RedisCheckpointer(redis, namespace)
    for lost in ("b", "everything"):
        holder = claimed(store, "w")
        store.record(holder, "a", 1)
        store.record(holder, "b", 1)
        if lost == "b":
            redis.hdel(store.hash_key("w"), "b")
        else:
            redis.delete(store.hash_key("w"), store.pass_key("w"))
        for _ in range(2):
            assert send(store.releasing(holder, Completed(1), 2)) is False
        state = redis.hmget(store.pass_key("w"), "state", "until")
        assert state == ["runs", "0"]
        redis.delete(store.hash_key("w"), store.pass_key("w"))
    holder = claimed(store, "w")
    store.record(holder, "a", 1)
    for _ in range(2):
        assert send(store.releasing(holder, Completed(1), 1)) is True
