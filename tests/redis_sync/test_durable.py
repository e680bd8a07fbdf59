# Generated from tests/redis_async/test_durable.py by twin.py. Edit that file.
"""A store and a queue side by side: what is written first, and what a failure between the two leaves."""

from __future__ import annotations

from typing import Any

import pytest
from durably.embedded import EmbeddedServer
from durably.keys import dropped_key, set_dropped_key
from durably_redis_sync import (
    INPUT,
    Blocked,
    Completed,
    Fenced,
    MemoryCheckpointer,
    MemoryScheduler,
    MsgpackCodec,
    RedisCheckpointer,
    RedisDurable,
    RedisSetScheduler,
    RedisStreamScheduler,
    Run,
    SplitDurable,
    advance,
    claimed,
    passes,
    resume,
)
from support import ms
from support_sync import Redis, together


class Watched:
    """Notes each call in `log`, and fails at the call named `fails`."""

    def __init__(self, of: Any, log: list[str], fails: str | None = None) -> None:
        self.of = of
        self.log = log
        self.fails = fails

    def __getattr__(self, name: str) -> Any:
        call = getattr(self.of, name)

        def noted(*args: Any, **options: Any) -> Any:
            self.log.append(name)
            if name == self.fails:
                raise ConnectionError("gone")
            return call(*args, **options)

        return noted


def pair(log: list[str], fails: str | None = None) -> SplitDurable[Any]:
    return SplitDurable(Watched(MemoryCheckpointer(), log, fails), Watched(MemoryScheduler(), log, fails))


def test_a_value_is_recorded_before_its_wakeup_is_queued() -> None:
    log: list[str] = []
    durable = pair(log)
    assert durable.arrive("w", "go", 1) == 1
    assert durable.arrive("w", "go", 2) == 1
    assert (durable.deliver("w", "hi")).value == "hi"
    assert log == ["supply", "make_ready", "supply", "make_ready", "append", "make_ready"]


def test_a_start_records_its_input_before_it_queues_the_workflow() -> None:
    log: list[str] = []
    durable = pair(log)
    assert durable.start("w", {"n": 1}) == {"n": 1}
    assert durable.start("w", {"n": 2}) == {"n": 1}
    assert durable.start("bare") is None
    assert durable.start("named", 5, key="order") == 5
    assert durable.checkpointer.load("w") == {INPUT: {"n": 1}}
    assert durable.checkpointer.load("bare") == {INPUT: None}
    assert durable.checkpointer.load("named") == {"order": 5}
    assert log[:4] == ["supply", "make_ready", "supply", "make_ready"]
    with pytest.raises(ValueError):
        durable.start("w", 1, key="inbox:1")


def test_a_deletion_cancels_before_it_discards() -> None:
    log: list[str] = []
    durable = pair(log)
    durable.arrive("w", "go", 1)
    del log[:]
    assert durable.delete("w") == 1
    assert log == ["cancel", "discard"]


def test_what_cannot_be_recorded_wakes_nobody() -> None:
    log: list[str] = []
    durable = pair(log)
    with pytest.raises(TypeError):
        durable.arrive("w", "go", object())
    with pytest.raises(ValueError):
        durable.delete("")
    assert log == ["supply"]


def test_a_wakeup_that_failed_is_made_good_by_sending_the_value_again() -> None:
    log: list[str] = []
    durable = pair(log, "make_ready")
    with pytest.raises(ConnectionError):
        durable.arrive("w", "go", 1)
    scheduler: Any = durable.scheduler
    scheduler.fails = None
    assert durable.arrive("w", "go", 2) == 1
    assert durable.scheduler.next_ready(ms(20)) is not None


@pytest.fixture(params=["stream", "set"])
def one(request: pytest.FixtureRequest, redis: Redis, namespace: str) -> RedisDurable:
    queue: Any = (RedisStreamScheduler if request.param == "stream" else RedisSetScheduler)(redis, namespace)
    queue.prepare()
    return RedisDurable(RedisCheckpointer(redis, namespace), queue)


class TestOneCommit:
    """A value and its wakeup, or a deletion, in one script."""

    def test_a_value_a_message_and_their_wakeups(self, one: RedisDurable) -> None:
        assert one.arrive("w", "go", 1) == 1
        assert one.arrive("w", "go", 2) == 1
        entry = one.deliver("w", "hi")
        assert one.checkpointer.load("w") == {"go": 1, entry.key: "hi"}
        delivery = one.scheduler.next_ready(ms(50))
        assert delivery is not None and delivery.workflow == "w"

    def test_a_start_and_what_the_body_reads(self, one: RedisDurable) -> None:
        assert one.start("w", [1, 2]) == [1, 2]
        assert one.start("w", [3]) == [1, 2]

        def body(run: Run) -> int:
            return sum(run.input(list))

        delivery = one.scheduler.next_ready(ms(50))
        assert delivery is not None
        assert advance(one, body, delivery) == Completed(3)
        waiting = claimed(one.checkpointer, "not started")
        assert resume(waiting, one.checkpointer, body) == Blocked((INPUT,))

    def test_it_is_one_call(self, own_server: EmbeddedServer, namespace: str) -> None:
        client = Redis.from_url(own_server.url, decode_responses=True)
        queue = RedisSetScheduler(client, namespace)
        one = RedisDurable(RedisCheckpointer(client, namespace), queue)
        one.arrive("w", "go", 0)
        before: Any = client.info("commandstats")
        one.start("w", 1, key="go")
        after: Any = client.info("commandstats")
        assert after["cmdstat_evalsha"]["calls"] - before["cmdstat_evalsha"]["calls"] == 1
        client.close()

    def test_what_is_refused_wakes_nobody(self, one: RedisDurable, redis: Redis) -> None:
        with pytest.raises(TypeError):
            one.arrive("w", "go", object())
        with pytest.raises(ValueError):
            one.arrive("w", "", 1)
        redis.set(one.checkpointer.hash_key("x"), "text")
        with pytest.raises(Exception, match="WRONGTYPE"):
            one.arrive("x", "go", 1)
        assert one.scheduler.next_ready(ms(5)) is None

    def test_a_deletion_fences_cancels_and_counts(self, one: RedisDurable) -> None:
        one.arrive("w", "go", 1)
        one.deliver("w", "hi")
        one.arrive("stays", "go", 1)
        holder = claimed(one.checkpointer, "w")
        assert one.delete("w") == 2
        with pytest.raises(Fenced):
            one.checkpointer.record(holder, "a", 1)
        assert one.checkpointer.load("w") == {}
        seen = []
        while (delivery := one.scheduler.next_ready(ms(5))) is not None:
            seen.append(delivery.workflow)
            one.scheduler.done(delivery)
        assert seen == ["stays"]
        assert one.delete("never there") == 0
        queue = one.checkpointer.redis
        for key in (dropped_key(one.checkpointer.namespace), set_dropped_key(one.checkpointer.namespace)):
            assert not queue.exists(key), "nothing is left to remember"

    def test_a_deletion_that_died_after_its_step_begins_no_pass(self, one: RedisDurable) -> None:
        one.arrive("w", "go", 1)
        delivery = one.scheduler.next_ready(ms(50))
        assert delivery is not None
        from durably_redis_sync._client import in_one_script, send

        mark = one.scheduler.cancelling("w")
        send(in_one_script(mark, one.checkpointer.discarding("w")))
        ran: list[str] = []

        def body(run: Run) -> None:
            ran.append(run.workflow)

        def taken() -> Any:
            yield delivery

        passes(one, body)(taken())
        assert ran == []

    def test_many_at_once(self, one: RedisDurable) -> None:
        together(*(lambda: one.deliver("w", "x") for _ in range(20)))
        assert len(one.checkpointer.load("w")) == 20

    def test_bytes_and_text_clients(self, server: EmbeddedServer, namespace: str) -> None:
        text = Redis.from_url(server.url, decode_responses=True)
        raw = Redis.from_url(server.url)
        for queue in (RedisStreamScheduler(text, namespace), RedisSetScheduler(text, namespace)):
            queue.prepare()
            one = RedisDurable(RedisCheckpointer(raw, namespace, codec=MsgpackCodec()), queue)
            assert one.arrive("w", "go", b"\xff") == b"\xff"
            assert (one.deliver("w", b"\xfe")).value == b"\xfe"
            assert one.delete("w") == 2
        text.close()
        raw.close()

    def test_what_cannot_be_one_commit_is_refused(
        self, redis: Redis, server: EmbeddedServer, namespace: str
    ) -> None:
        store = RedisCheckpointer(redis, namespace)
        elsewhere = Redis.from_url(server.url.replace("/0", "/1"), decode_responses=True)
        with pytest.raises(ValueError, match="two databases"):
            RedisDurable(store, RedisStreamScheduler(elsewhere, namespace))
        with pytest.raises(TypeError, match="MemoryScheduler"):
            RedisDurable(store, MemoryScheduler())  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="MemoryCheckpointer"):
            RedisDurable(MemoryCheckpointer(), RedisStreamScheduler(redis))  # type: ignore[arg-type]
        elsewhere.close()
