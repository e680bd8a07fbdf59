# Generated from tests/redis_async/test_outbox.py by twin.py. Edit that file.
"""Starting and messaging other workflows out of a body: once, whatever dies at whatever moment."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from durably.embedded import EmbeddedServer
from durably_redis_sync import (
    INPUT,
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
    resume,
)
from support import ms
from support_sync import Crashed, Faults, Redis

CHILD = Path(__file__).with_name("outbox_child.py")
KINDS = ["memory", "split stream", "split set", "one stream", "one set"]


class Backwards:
    """A codec whose text says nothing to others."""

    def encode(self, value: object) -> str:
        return repr(value)[::-1]

    def decode(self, encoding: str) -> object:
        import ast

        return ast.literal_eval(encoding[::-1])


def of_kind(kind: str, redis: Redis, namespace: str, codec: Any = None) -> Any:
    if kind == "memory":
        return SplitDurable(MemoryCheckpointer(), MemoryScheduler(lease=ms(100)))
    store = RedisCheckpointer(redis, namespace, **({} if codec is None else {"codec": codec}))
    queue: Any
    if kind.endswith("stream"):
        queue = RedisStreamScheduler(redis, namespace, lease=ms(100))
    else:
        queue = RedisSetScheduler(redis, namespace, lease=ms(100), poll=ms(5))
    queue.prepare()
    return RedisDurable(store, queue) if kind.startswith("one") else SplitDurable(store, queue)


@pytest.fixture(params=KINDS)
def durable(request: pytest.FixtureRequest, redis: Redis, namespace: str) -> Any:
    """Each kind of pair."""
    return of_kind(request.param, redis, namespace)


def parent(run: Run) -> str:
    """Starts one, sends it and another one message each, and returns where the second was filed."""
    given = run.input(str)
    assert run.start("child", f"{given}-child", {"n": 1}) == f"{given}-child"
    first = run.send("hello", f"{given}-child", "hello")
    second = run.send("hi", "other", ["hi", 2])
    assert first.startswith("inbox:") and first != second
    return second


def taken(durable: Any) -> list[str]:
    """Every wakeup that waits, in order of the ids; answered for."""
    found = []
    while (delivery := durable.scheduler.next_ready(ms(5))) is not None:
        found.append(delivery.workflow)
        durable.scheduler.done(delivery)
    return sorted(found)


def messages(records: dict[str, object]) -> list[object]:
    return [value for key, value in records.items() if key.startswith("inbox:")]


def one_pass(durable: Any, body: Any = parent, workflow: str = "p") -> Any:
    holder = claimed(durable.checkpointer, workflow)
    try:
        return resume(holder, durable.checkpointer, body, durable=durable)
    finally:
        durable.checkpointer.release(holder)


def test_they_are_started_and_messaged_once_over_all_passes(durable: Any) -> None:
    durable.checkpointer.supply("p", INPUT, "p")
    outcomes = [one_pass(durable) for _ in range(3)]
    assert outcomes[0] == outcomes[1] == outcomes[2]
    child = durable.checkpointer.load("p-child")
    assert child[INPUT] == {"n": 1} and messages(child) == ["hello"] and len(child) == 2
    other = durable.checkpointer.load("other")
    assert outcomes[0] == Completed(next(iter(other))) and messages(other) == [["hi", 2]]
    assert set(taken(durable)) == {"p-child", "other"}


def test_a_message_of_a_name_is_filed_once(durable: Any) -> None:
    first = durable.deliver("w", 1, once="a")
    assert durable.deliver("w", 1, once="a") == first
    assert (durable.deliver("w", 2, once="b")).key != first.key
    assert (durable.deliver("w", 1)).key != first.key
    assert messages(durable.checkpointer.load("w")) == [1, 2, 1]
    for bad in ("", 5):
        with pytest.raises((TypeError, ValueError), match="once"):
            durable.deliver("w", 1, once=bad)
    durable.delete("w")
    durable.deliver("w", 1, once="a")
    assert messages(durable.checkpointer.load("w")) == [1], "a new life knows nothing of the old one's"


def test_a_workflow_may_message_itself(durable: Any) -> None:
    def body(run: Run) -> object:
        run.send("note", run.workflow, "to me")
        (message,) = run.receive("read")
        return message.value

    holder = claimed(durable.checkpointer, "w")
    resume(holder, durable.checkpointer, body, durable=durable)
    durable.checkpointer.release(holder)
    (delivery,) = [durable.scheduler.next_ready(ms(50))]
    assert advance(durable, body, delivery) == Completed("to me")
    assert messages(durable.checkpointer.load("w")) == ["to me"]


def test_a_fenced_pass_sends_nothing(durable: Any) -> None:
    def body(run: Run) -> None:
        durable.checkpointer.discard(run.workflow)
        with pytest.raises(Fenced):
            run.send("hello", "other", 1)
        with pytest.raises(Fenced):
            run.start("child", "child", 1)

    durable.checkpointer.supply("p", "a", 1)
    with pytest.raises(Fenced):
        one_pass(durable, body)
    assert durable.checkpointer.load("other") == durable.checkpointer.load("child") == {}
    assert taken(durable) == []


def test_a_pass_that_lost_its_workflow_does_not_deliver_what_it_finds_undelivered(durable: Any) -> None:
    from durably.posting import Intention

    holder = claimed(durable.checkpointer, "p")
    durable.checkpointer.record(holder, "hello", Intention("other", None, "late", "x").plain())

    def body(run: Run) -> None:
        durable.checkpointer.discard(run.workflow)
        run.send("hello", "other", "late")

    with pytest.raises(Fenced):
        resume(holder, durable.checkpointer, body, durable=durable)
    assert durable.checkpointer.load("other") == {}


def test_a_pass_without_a_queue_says_so_before_anything_is_written(durable: Any) -> None:
    def sends(run: Run) -> None:
        run.send("hello", "other", 1)

    def starts(run: Run) -> None:
        run.start("child", "child", 1)

    for body in (sends, starts):
        holder = claimed(durable.checkpointer, "p")
        with pytest.raises(RuntimeError, match="durable=durable"):
            resume(holder, durable.checkpointer, body)
        durable.checkpointer.release(holder)
    for workflow in ("p", "other", "child"):
        assert durable.checkpointer.load(workflow) == {}


def test_what_cannot_be_sent_is_refused_before_anything_is_written(durable: Any) -> None:
    def body(run: Run) -> None:
        for bad in (
            lambda: run.send("a", "", 1),
            lambda: run.start("b", "x", 1, input_key="inbox:1"),
            lambda: run.start("c", "x", object()),
            lambda: run.send("d", "x", object()),
            lambda: run.send("inbox:1", "x", 1),
        ):
            with pytest.raises((TypeError, ValueError)):
                bad()  # type: ignore[no-untyped-call]
        with pytest.raises(ValueError, match="twice"):
            run.send("d:sent", "x", 1)

    one_pass(durable, body)
    assert durable.checkpointer.load("p") == durable.checkpointer.load("x") == {}
    assert taken(durable) == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_process_that_dies_at_any_call_sends_all_once(
    kind: str, server: EmbeddedServer, redis: Redis, namespace: str
) -> None:
    boundary, ended = 0, False
    while not ended:
        durable = of_kind(kind, redis, f"{namespace}{boundary}")
        durable.checkpointer.supply("p", INPUT, "p")
        holder = claimed(durable.checkpointer, "p")
        faults = Faults(boundary)
        dying: Any = SplitDurable(faults.over(durable.checkpointer), faults.over(durable.scheduler))
        try:
            resume(holder, dying.checkpointer, parent, durable=dying)
            ended = True
        except Crashed:
            pass
        durable.checkpointer.release(holder)
        outcome = one_pass(durable)
        child, other = [durable.checkpointer.load(name) for name in ("p-child", "other")]
        assert child[INPUT] == {"n": 1} and messages(child) == ["hello"], faults.passed
        assert list(other.values()) == [["hi", 2]] and outcome == Completed(next(iter(other))), faults.passed
        assert set(taken(durable)) == {"p-child", "other"}, faults.passed
        boundary += 1
    assert boundary > 20


def go_on(durable: Any) -> bool:
    """Take over what a dead worker left of `p`; whether there was something."""
    until = time.monotonic() + 1
    while time.monotonic() < until:
        delivery = durable.scheduler.reclaim(ms(100)) or durable.scheduler.next_ready(ms(20))
        if delivery is not None and delivery.workflow == "p":
            if advance(durable, parent, delivery, contended=ms(10)) is not None:
                return True
        durable.scheduler.wake_due()
    return False


@pytest.mark.parametrize("kind", ["split stream", "one set"])
def test_a_killed_process_has_sent_all_once(
    kind: str, server: EmbeddedServer, redis: Redis, namespace: str
) -> None:
    killed, boundary, code = 0, 3, -1
    while code != 0:
        durable = of_kind(kind, redis, f"{namespace}{boundary}")
        durable.start("p", "p")
        child = [sys.executable, str(CHILD), server.url, f"{namespace}{boundary}", kind, str(boundary)]
        said = subprocess.run(child, capture_output=True, text=True, timeout=60)
        code = said.returncode
        assert code in (0, -signal.SIGKILL), said.stderr
        killed += code != 0
        if code:
            assert go_on(durable) or messages(durable.checkpointer.load("p-child"))
        there, other = [durable.checkpointer.load(name) for name in ("p-child", "other")]
        assert there[INPUT] == {"n": 1} and messages(there) == ["hello"]
        assert list(other.values()) == [["hi", 2]]
        boundary += 3
    assert killed >= 2


@pytest.mark.parametrize("codec", [MsgpackCodec(), Backwards()])
def test_whatever_the_codec(redis: Redis, namespace: str, codec: Any) -> None:
    durable = of_kind("one stream", redis, namespace, codec)
    durable.checkpointer.supply("p", INPUT, "p")
    first = one_pass(durable)
    assert one_pass(durable) == first
    assert first == Completed(next(iter(durable.checkpointer.load("other"))))
    records = durable.checkpointer.load("p")
    assert ("hello:sent" in records) is isinstance(codec, Backwards)


def test_a_fleet_may_change_from_two_writes_to_one_and_back(redis: Redis, namespace: str) -> None:
    split, one = [of_kind(kind, redis, namespace) for kind in ("split set", "one set")]
    faults = Faults(7)
    dying: Any = SplitDurable(faults.over(split.checkpointer), faults.over(split.scheduler))
    split.checkpointer.supply("p", INPUT, "p")
    holder = claimed(split.checkpointer, "p")
    with pytest.raises(Crashed):
        resume(holder, dying.checkpointer, parent, durable=dying)
    split.checkpointer.release(holder)
    assert "child" in split.checkpointer.load("p")
    assert "child:sent" not in split.checkpointer.load("p")
    first = one_pass(one)
    assert one_pass(split) == first
    assert messages(one.checkpointer.load("p-child")) == ["hello"]


def test_with_one_database_it_is_one_call(own_server: EmbeddedServer, namespace: str) -> None:
    client = Redis.from_url(own_server.url, decode_responses=True)
    durable = of_kind("one set", client, namespace)

    def body(run: Run) -> int:
        before: Any = client.info("commandstats")
        run.send("hello", "other", run.workflow)
        after: Any = client.info("commandstats")
        names = [one for one in after if after[one]["calls"] != before.get(one, {"calls": 0})["calls"]]
        assert "cmdstat_evalsha" in names
        return int(after["cmdstat_evalsha"]["calls"] - before["cmdstat_evalsha"]["calls"])

    assert one_pass(durable, body, "warm") != Completed(0)
    assert one_pass(durable, body) == Completed(1)
    client.close()
