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
from durably_redis_async import (
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
from support_async import Crashed, Faults, Redis

CHILD = Path(__file__).with_name("outbox_child.py")
KINDS = ["memory", "split stream", "split set", "one stream", "one set"]


class Backwards:
    """A codec whose text says nothing to others."""

    def encode(self, value: object) -> str:
        return repr(value)[::-1]

    def decode(self, encoding: str) -> object:
        import ast

        return ast.literal_eval(encoding[::-1])


async def of_kind(kind: str, redis: Redis, namespace: str, codec: Any = None) -> Any:
    if kind == "memory":
        return SplitDurable(MemoryCheckpointer(), MemoryScheduler(lease=ms(100)))
    store = RedisCheckpointer(redis, namespace, **({} if codec is None else {"codec": codec}))
    queue: Any
    if kind.endswith("stream"):
        queue = RedisStreamScheduler(redis, namespace, lease=ms(100))
    else:
        queue = RedisSetScheduler(redis, namespace, lease=ms(100), poll=ms(5))
    await queue.prepare()
    return RedisDurable(store, queue) if kind.startswith("one") else SplitDurable(store, queue)


@pytest.fixture(params=KINDS)
async def durable(request: pytest.FixtureRequest, redis: Redis, namespace: str) -> Any:
    """Each kind of pair."""
    return await of_kind(request.param, redis, namespace)


async def parent(run: Run) -> str:
    """Starts one, sends it and another one message each, and returns where the second was filed."""
    given = await run.input(str)
    assert await run.start("child", f"{given}-child", {"n": 1}) == f"{given}-child"
    first = await run.send("hello", f"{given}-child", "hello")
    second = await run.send("hi", "other", ["hi", 2])
    assert first.startswith("inbox:") and first != second
    return second


async def taken(durable: Any) -> list[str]:
    """Every wakeup that waits, in order of the ids; answered for."""
    found = []
    while (delivery := await durable.scheduler.next_ready(ms(5))) is not None:
        found.append(delivery.workflow)
        await durable.scheduler.done(delivery)
    return sorted(found)


def messages(records: dict[str, object]) -> list[object]:
    return [value for key, value in records.items() if key.startswith("inbox:")]


async def one_pass(durable: Any, body: Any = parent, workflow: str = "p") -> Any:
    holder = await claimed(durable.checkpointer, workflow)
    try:
        return await resume(holder, durable.checkpointer, body, durable=durable)
    finally:
        await durable.checkpointer.release(holder)


async def test_they_are_started_and_messaged_once_over_all_passes(durable: Any) -> None:
    await durable.checkpointer.supply("p", INPUT, "p")
    outcomes = [await one_pass(durable) for _ in range(3)]
    assert outcomes[0] == outcomes[1] == outcomes[2]
    child = await durable.checkpointer.load("p-child")
    assert child[INPUT] == {"n": 1} and messages(child) == ["hello"] and len(child) == 2
    other = await durable.checkpointer.load("other")
    assert outcomes[0] == Completed(next(iter(other))) and messages(other) == [["hi", 2]]
    assert set(await taken(durable)) == {"p-child", "other"}


async def test_a_message_of_a_name_is_filed_once(durable: Any) -> None:
    first = await durable.deliver("w", 1, once="a")
    assert await durable.deliver("w", 1, once="a") == first
    assert (await durable.deliver("w", 2, once="b")).key != first.key
    assert (await durable.deliver("w", 1)).key != first.key
    assert messages(await durable.checkpointer.load("w")) == [1, 2, 1]
    for bad in ("", 5):
        with pytest.raises((TypeError, ValueError), match="once"):
            await durable.deliver("w", 1, once=bad)
    await durable.delete("w")
    await durable.deliver("w", 1, once="a")
    assert messages(await durable.checkpointer.load("w")) == [1], "a new life knows nothing of the old one's"


async def test_a_workflow_may_message_itself(durable: Any) -> None:
    async def body(run: Run) -> object:
        await run.send("note", run.workflow, "to me")
        (message,) = await run.receive("read")
        return message.value

    holder = await claimed(durable.checkpointer, "w")
    await resume(holder, durable.checkpointer, body, durable=durable)
    await durable.checkpointer.release(holder)
    (delivery,) = [await durable.scheduler.next_ready(ms(50))]
    assert await advance(durable, body, delivery) == Completed("to me")
    assert messages(await durable.checkpointer.load("w")) == ["to me"]


async def test_a_fenced_pass_sends_nothing(durable: Any) -> None:
    async def body(run: Run) -> None:
        await durable.checkpointer.discard(run.workflow)
        with pytest.raises(Fenced):
            await run.send("hello", "other", 1)
        with pytest.raises(Fenced):
            await run.start("child", "child", 1)

    await durable.checkpointer.supply("p", "a", 1)
    with pytest.raises(Fenced):
        await one_pass(durable, body)
    assert await durable.checkpointer.load("other") == await durable.checkpointer.load("child") == {}
    assert await taken(durable) == []


async def test_a_pass_that_lost_its_workflow_does_not_deliver_what_it_finds_undelivered(durable: Any) -> None:
    from durably.posting import Intention

    holder = await claimed(durable.checkpointer, "p")
    await durable.checkpointer.record(holder, "hello", Intention("other", None, "late", "x").plain())

    async def body(run: Run) -> None:
        await durable.checkpointer.discard(run.workflow)
        await run.send("hello", "other", "late")

    with pytest.raises(Fenced):
        await resume(holder, durable.checkpointer, body, durable=durable)
    assert await durable.checkpointer.load("other") == {}


async def test_a_pass_without_a_queue_says_so_before_anything_is_written(durable: Any) -> None:
    async def sends(run: Run) -> None:
        await run.send("hello", "other", 1)

    async def starts(run: Run) -> None:
        await run.start("child", "child", 1)

    for body in (sends, starts):
        holder = await claimed(durable.checkpointer, "p")
        with pytest.raises(RuntimeError, match="durable=durable"):
            await resume(holder, durable.checkpointer, body)
        await durable.checkpointer.release(holder)
    for workflow in ("p", "other", "child"):
        assert await durable.checkpointer.load(workflow) == {}


async def test_what_cannot_be_sent_is_refused_before_anything_is_written(durable: Any) -> None:
    async def body(run: Run) -> None:
        for bad in (
            lambda: run.send("a", "", 1),
            lambda: run.start("b", "x", 1, input_key="inbox:1"),
            lambda: run.start("c", "x", object()),
            lambda: run.send("d", "x", object()),
            lambda: run.send("inbox:1", "x", 1),
        ):
            with pytest.raises((TypeError, ValueError)):
                await bad()  # type: ignore[no-untyped-call]
        with pytest.raises(ValueError, match="twice"):
            await run.send("d:sent", "x", 1)

    await one_pass(durable, body)
    assert await durable.checkpointer.load("p") == await durable.checkpointer.load("x") == {}
    assert await taken(durable) == []


@pytest.mark.parametrize("kind", KINDS)
async def test_a_process_that_dies_at_any_call_sends_all_once(
    kind: str, server: EmbeddedServer, redis: Redis, namespace: str
) -> None:
    boundary, ended = 0, False
    while not ended:
        durable = await of_kind(kind, redis, f"{namespace}{boundary}")
        await durable.checkpointer.supply("p", INPUT, "p")
        holder = await claimed(durable.checkpointer, "p")
        faults = Faults(boundary)
        dying: Any = SplitDurable(faults.over(durable.checkpointer), faults.over(durable.scheduler))
        try:
            await resume(holder, dying.checkpointer, parent, durable=dying)
            ended = True
        except Crashed:
            pass
        await durable.checkpointer.release(holder)
        outcome = await one_pass(durable)
        child, other = [await durable.checkpointer.load(name) for name in ("p-child", "other")]
        assert child[INPUT] == {"n": 1} and messages(child) == ["hello"], faults.passed
        assert list(other.values()) == [["hi", 2]] and outcome == Completed(next(iter(other))), faults.passed
        assert set(await taken(durable)) == {"p-child", "other"}, faults.passed
        boundary += 1
    assert boundary > 20


async def go_on(durable: Any) -> bool:
    """Take over what a dead worker left of `p`; whether there was something."""
    until = time.monotonic() + 1
    while time.monotonic() < until:
        delivery = await durable.scheduler.reclaim(ms(100)) or await durable.scheduler.next_ready(ms(20))
        if delivery is not None and delivery.workflow == "p":
            if await advance(durable, parent, delivery, contended=ms(10)) is not None:
                return True
        await durable.scheduler.wake_due()
    return False


@pytest.mark.parametrize("kind", ["split stream", "one set"])
async def test_a_killed_process_has_sent_all_once(
    kind: str, server: EmbeddedServer, redis: Redis, namespace: str
) -> None:
    killed, boundary, code = 0, 3, -1
    while code != 0:
        durable = await of_kind(kind, redis, f"{namespace}{boundary}")
        await durable.start("p", "p")
        child = [sys.executable, str(CHILD), server.url, f"{namespace}{boundary}", kind, str(boundary)]
        said = subprocess.run(child, capture_output=True, text=True, timeout=60)
        code = said.returncode
        assert code in (0, -signal.SIGKILL), said.stderr
        killed += code != 0
        if code:
            assert await go_on(durable) or messages(await durable.checkpointer.load("p-child"))
        there, other = [await durable.checkpointer.load(name) for name in ("p-child", "other")]
        assert there[INPUT] == {"n": 1} and messages(there) == ["hello"]
        assert list(other.values()) == [["hi", 2]]
        boundary += 3
    assert killed >= 2


@pytest.mark.parametrize("codec", [MsgpackCodec(), Backwards()])
async def test_whatever_the_codec(redis: Redis, namespace: str, codec: Any) -> None:
    durable = await of_kind("one stream", redis, namespace, codec)
    await durable.checkpointer.supply("p", INPUT, "p")
    first = await one_pass(durable)
    assert await one_pass(durable) == first
    assert first == Completed(next(iter(await durable.checkpointer.load("other"))))
    records = await durable.checkpointer.load("p")
    assert ("hello:sent" in records) is isinstance(codec, Backwards)


async def test_a_fleet_may_change_from_two_writes_to_one_and_back(redis: Redis, namespace: str) -> None:
    split, one = [await of_kind(kind, redis, namespace) for kind in ("split set", "one set")]
    faults = Faults(7)
    dying: Any = SplitDurable(faults.over(split.checkpointer), faults.over(split.scheduler))
    await split.checkpointer.supply("p", INPUT, "p")
    holder = await claimed(split.checkpointer, "p")
    with pytest.raises(Crashed):
        await resume(holder, dying.checkpointer, parent, durable=dying)
    await split.checkpointer.release(holder)
    assert "child" in await split.checkpointer.load("p")
    assert "child:sent" not in await split.checkpointer.load("p")
    first = await one_pass(one)
    assert await one_pass(split) == first
    assert messages(await one.checkpointer.load("p-child")) == ["hello"]


async def test_with_one_database_it_is_one_call(own_server: EmbeddedServer, namespace: str) -> None:
    client = Redis.from_url(own_server.url, decode_responses=True)
    durable = await of_kind("one set", client, namespace)

    async def body(run: Run) -> int:
        before: Any = await client.info("commandstats")
        await run.send("hello", "other", run.workflow)
        after: Any = await client.info("commandstats")
        names = [one for one in after if after[one]["calls"] != before.get(one, {"calls": 0})["calls"]]
        assert "cmdstat_evalsha" in names
        return int(after["cmdstat_evalsha"]["calls"] - before["cmdstat_evalsha"]["calls"])

    assert await one_pass(durable, body, "warm") != Completed(0)
    assert await one_pass(durable, body) == Completed(1)
    await client.aclose()
