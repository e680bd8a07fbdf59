# Generated from tests/redis_async/test_lost_keys.py by twin.py. Edit that file.
"""Keys that go under us (flushed, evicted, deleted by hand): each call heals, or says what is missing."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from durably.embedded import EmbeddedServer
from durably_redis_sync import (
    CheckpointGone,
    Delivery,
    Fenced,
    LuaEffect,
    Pass,
    RedisCheckpointer,
    RedisDurable,
    RedisSetScheduler,
    RedisStreamScheduler,
    Run,
    claimed,
    now_utc,
    work,
)
from support import ms, same
from support_sync import Event, Redis, Started, eventually, sleep, wait
from support_sync import client as connect

EFFECT = LuaEffect("return '7'")


@pytest.fixture
def store(redis: Redis, namespace: str) -> RedisCheckpointer:
    return RedisCheckpointer(redis, namespace, durability="memory")


def lose(redis: Redis, namespace: str, what: str) -> None:
    """Delete every key of the namespace (`everything`; the session's server has others), or one kind."""
    kinds: dict[str, Callable[[str], bool]] = {
        "everything": lambda key: True,
        "claims": lambda key: key.endswith(":pass"),
        "records": lambda key: key == f"{namespace}:{{w}}",
        "queue": lambda key: key in (f"{{{namespace}}}:ready", f"{namespace}:schedule"),
        "sleepers": lambda key: key == f"{{{namespace}}}:sleeping",
    }
    found: Any = redis.keys(f"*{namespace}*")
    gone = [key for key in map(str, found) if kinds[what](key)]
    assert gone, f"there is nothing of {what} to lose"
    redis.delete(*gone)


STORE: list[tuple[str, str, object]] = [
    ("claims", "load", {"a": 1}),
    ("claims", "record", Fenced),
    ("claims", "record again", Fenced),
    ("claims", "transact", Fenced),
    ("claims", "confirm", Fenced),
    ("claims", "renew", False),
    ("claims", "extend", False),
    ("claims", "release", None),
    ("claims", "claim", Pass),
    ("claims", "clear_torn", False),
    ("claims", "supply", 2),
    ("claims", "append", "hi"),
    ("claims", "discard", 1),
    ("records", "load", {}),
    ("records", "history", {}),
    ("records", "record", 2),
    ("records", "record again", 1),
    ("records", "transact", 7),
    ("records", "renew", True),
    ("records", "extend", True),
    ("records", "release", None),
    ("records", "supply", 2),
    ("records", "append", "hi"),
    ("records", "discard", 0),
    ("everything", "load", {}),
    ("everything", "record", Fenced),
    ("everything", "transact", Fenced),
    ("everything", "renew", False),
    ("everything", "extend", False),
    ("everything", "release", None),
    ("everything", "claim", Pass),
    ("everything", "supply", 2),
    ("everything", "append", "hi"),
    ("everything", "discard", 0),
]
"""What is lost, which call is made then, and what it gives or raises."""


@pytest.mark.parametrize(("lost", "call", "gives"), STORE, ids=lambda one: str(one).replace(" ", "_")[:20])
def test_a_call_of_the_store(
    store: RedisCheckpointer, redis: Redis, namespace: str, lost: str, call: str, gives: Any
) -> None:
    holder = claimed(store, "w")
    store.record(holder, "a", 1)
    sleep(0.002)  # a token is at least the server's time in ms: that one has passed
    calls: dict[str, Any] = {
        "load": partial(store.load, "w"),
        "history": partial(store.history, "w"),
        "record": partial(store.record, holder, "b", 2),
        "record again": partial(store.record, holder, "a", 1),
        "transact": partial(store.transact, holder, "t", EFFECT),
        "confirm": partial(store.confirm, holder, "a", durability="replicas"),
        "renew": partial(store.renew, holder),
        "extend": partial(store.extend, holder, ms(60_000)),
        "release": partial(store.release, holder),
        "claim": partial(store.claim, "w"),
        "clear_torn": partial(store.clear_torn, "w", "a"),
        "supply": partial(store.supply, "w", "s", 2),
        "append": partial(store.append, "w", "hi"),
        "discard": partial(store.discard, "w"),
    }
    lose(redis, namespace, lost)
    before: Any = redis.keys(f"*{namespace}*")
    if gives is Fenced:
        with pytest.raises(Fenced):
            calls[call]()
        assert sorted(redis.keys(f"*{namespace}*")) == sorted(before), "a refused write moves nothing"
        return
    given = calls[call]()
    if gives is Pass:
        assert given.token > holder.token, "the fence rises, though nothing is left to tell where it was"
    else:
        assert getattr(given, "value", given) == gives
    if (lost, call) == ("records", "release"):
        with pytest.raises(CheckpointGone, match="0 of 1"):
            store.claim("w")
        store.discard("w")
    # whatever was lost, the workflow can be begun again
    fresh = store.claim("w") if call not in ("claim",) else given
    if fresh is not None:
        assert (store.record(fresh, "anew", 3)).first


QUEUE = ["make_ready", "next_ready", "reclaim", "extend", "holding", "wake_at", "done", "cancel", "available"]


@pytest.mark.parametrize("call", [*QUEUE, "wake_due", "trim"])
@pytest.mark.parametrize("lost", ["everything", "queue", "group", "sleepers"])
def test_a_call_of_the_stream(redis: Redis, namespace: str, lost: str, call: str) -> None:
    queue = RedisStreamScheduler(redis, namespace, lease=ms(60_000))
    held = one_of_each(queue)
    if lost == "group":
        redis.xgroup_destroy(queue.ready_key, queue.group)
    else:
        lose(redis, namespace, lost)
    made(queue, call, held)
    queue.make_ready("again")
    queue.prepare()
    seen = drained(queue)
    assert "again" in seen, "the queue works again"
    if lost == "group" and call not in ("cancel", "next_ready"):
        assert "held" in seen, (
            "what the group held is delivered once more: the new one begins at the beginning"
        )


@pytest.mark.parametrize("call", QUEUE)
@pytest.mark.parametrize("lost", ["everything", "queue"])
def test_a_call_of_the_set(redis: Redis, namespace: str, lost: str, call: str) -> None:
    queue = RedisSetScheduler(redis, namespace, lease=ms(60_000))
    held = one_of_each(queue)
    lose(redis, namespace, lost)
    made(queue, call, held)
    if call != "make_ready":
        assert queue.available(10) == 0, "nothing is brought back that was lost"
    queue.make_ready("again")
    assert "again" in drained(queue)


def one_of_each(queue: Any) -> Delivery:
    """A delivery that is out, one that waits, a sleeper."""
    queue.prepare()
    for name in ("held", "sleeper"):
        queue.make_ready(name)
    held, asleep = queue.next_ready(ms(50)), queue.next_ready(ms(50))
    assert held is not None and asleep is not None
    queue.wake_at(asleep, now_utc() + ms(60_000))
    queue.make_ready("waiting")
    taken: Delivery = held
    return taken


def made(queue: Any, call: str, held: Delivery) -> None:
    """Make the call, and look at what it gives."""
    if call == "make_ready":
        queue.make_ready("w")
    elif call == "next_ready":
        queue.next_ready(ms(5))
    elif call == "reclaim":
        queue.reclaim(ms(60_000))
    elif call == "extend":
        assert (queue.extend(held, ms(60_000))).workflow == "held"
    elif call == "holding":
        store = RedisCheckpointer(queue.redis, queue.namespace)
        (stands,) = store.together([queue.holding(held)])
        assert isinstance(stands, bool)
    elif call == "wake_at":
        queue.wake_at(held, now_utc() + ms(60_000))
    elif call == "done":
        queue.done(held)
    elif call == "cancel":
        queue.cancel("held")
    elif call == "available":
        assert queue.available(10) >= 0
    elif call == "wake_due":
        assert queue.wake_due() == ()
    else:
        assert queue.trim() >= 0


def drained(queue: Any) -> list[str]:
    seen: list[str] = []
    while (delivery := queue.next_ready(ms(5))) is not None:
        seen.append(delivery.workflow)
        queue.done(delivery)
    return seen


@pytest.mark.parametrize("kind", ["stream", "set"])
def test_a_server_flushed_in_the_middle_of_a_pass(
    own_server: EmbeddedServer, namespace: str, kind: str
) -> None:
    client = connect(own_server.url)
    queue: Any = RedisStreamScheduler(client, namespace, lease=ms(2_000))
    if kind == "set":
        queue = RedisSetScheduler(client, namespace, lease=ms(2_000), poll=ms(10))
    store = RedisCheckpointer(client, namespace)
    durable = RedisDurable(store, queue)
    began, flushed, stop = Event(), Event(), Event()
    ended: list[str] = []
    refused: list[str] = []

    def body(run: Run) -> None:
        def effect() -> int:
            began.set()
            assert wait(flushed, 10)
            return 1

        try:
            run.step("a", effect, same)
        except Fenced:
            refused.append(run.workflow)
            raise
        run.awaiting("go", same)
        ended.append(run.workflow)

    queue.prepare()
    queue.make_ready("w")
    working = Started(work, durable, body, stop=stop, within=ms(50), tick=ms(10))
    assert wait(began, 10)
    client.flushall()
    flushed.set()

    def told() -> bool:
        return refused == ["w"]

    eventually(told, describing="the pass learns that its claim is gone")
    assert store.load("w") == {}, "a pass without a claim records nothing"
    durable.arrive("w", "go", 1)

    def over() -> bool:
        return "w" in ended

    eventually(over, describing="what is sent again is worked on")
    stop.set()
    working.result()
    client.close()
