# Generated from tests/redis_async/scenarios.py by twin.py. Edit that file.
"""What a workflow needs of a store and a queue, in named scenarios: `doubles.py` runs them over in-process engines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import uuid4

from durably_redis_sync import (
    Delivery,
    EffectTorn,
    Fenced,
    LuaEffect,
    MemoryCheckpointer,
    MemoryScheduler,
    RedisCheckpointer,
    RedisDurable,
    RedisSetScheduler,
    RedisStreamScheduler,
    Run,
    SplitDurable,
    now_utc,
    work,
)
from support import ms
from support_sync import Event, Started, eventually, sleep, together

LEASE = ms(400)
SOON = ms(300)


@dataclass
class Kit:
    """A store, a queue, and the two as one. `redis`: the client; `None` for the stores in memory."""

    store: Any
    queue: Any
    durable: Any
    redis: Any = None


def kit(redis: Any, queue: str) -> Kit:
    """Fresh ones on a client, `queue` being "stream" or "set"; in memory without a client."""
    if redis is None:
        memory, wakeups = MemoryCheckpointer(), MemoryScheduler(LEASE)
        return Kit(memory, wakeups, SplitDurable(memory, wakeups))
    namespace = f"s{uuid4().hex[:8]}"
    kept = RedisCheckpointer(redis, namespace)
    made: Any = (
        RedisStreamScheduler(redis, namespace, lease=LEASE)
        if queue == "stream"
        else RedisSetScheduler(redis, namespace, lease=LEASE, poll=ms(5))
    )
    return Kit(kept, made, RedisDurable(kept, made), redis)


def recording(has: Kit) -> None:
    """A record stands, is read in order, and carries its time."""
    store = has.store
    holder = store.claim("w")
    for n in range(20):
        assert (store.record(holder, f"step {n}", {"n": n, "big": 2**53, "none": []})).first
    again = store.record(holder, "step 3", "other")
    assert not again.first and again.value["n"] == 3
    records = store.load("w")
    assert list(records) == [f"step {n}" for n in range(20)]
    assert records["step 7"] == {"n": 7, "big": 2**53, "none": []}
    assert abs((store.history("w"))["step 0"].at - now_utc()) < timedelta(minutes=1)
    assert store.load("unknown") == {}


def contention(has: Kit) -> None:
    """Of many claims at once one wins; the next has a higher token, and fences it."""
    store = has.store
    taken = together(*[lambda: store.claim("w")] * 8)
    (first,) = [one for one in taken if one is not None]
    store.release(first)
    second = store.claim("w")
    assert second.token > first.token
    try:
        store.record(first, "a", 1)
    except Fenced:
        pass
    else:
        raise AssertionError("a pass that lost its claim has recorded")
    assert store.load("w") == {}


def lapsing(has: Kit) -> None:
    """A claim lapses without signs of life, and is kept by them."""
    store = has.store
    first = store.claim("w", alive=SOON)
    sleep(0.2)
    assert store.renew(first, alive=SOON)
    sleep(0.2)
    assert store.claim("w") is None
    sleep(0.2)
    assert store.claim("w") is not None
    assert not store.renew(first)


def transacting(has: Kit) -> None:
    """An effect happens once, with its record; one that fails before a write has not happened, after one it is torn."""
    store = has.store
    holder = store.claim("w")
    ran: list[int] = []

    def count() -> object:
        ran.append(1)
        return {"at": len(ran)}

    def fails() -> object:
        raise LookupError("not yet")

    def tears() -> object:
        ran.append(1)
        return object()

    key = f"{{{holder.workflow}}}:{uuid4().hex}"
    effects: list[Any] = [count, fails, tears]
    if has.redis is not None:
        effects = [
            LuaEffect("return cjson.encode({at = redis.call('INCR', KEYS[1])})", (key,)),
            LuaEffect("return redis.error_reply('NOT yet')", (key,)),
            LuaEffect("redis.call('INCR', KEYS[1]) return 5", (key,)),
        ]
    for _ in range(2):
        assert store.transact(holder, "once", effects[0]) == {"at": 1}
    for number, expected in ((1, Exception), (2, EffectTorn), (2, EffectTorn)):
        try:
            store.transact(holder, f"effect {number}", effects[number])
        except expected as error:
            assert (number == 2) == isinstance(error, EffectTorn), repr(error)
        else:
            raise AssertionError("a failed effect gave a result")
    assert (len(ran) if has.redis is None else int(has.redis.get(key))) == 2
    assert list(store.load("w")) == ["once"]


def effects_json(has: Kit) -> None:
    """What a server's cjson makes of empty objects, empty lists and great integers."""
    store = has.store
    holder = store.claim("w")
    source = "return cjson.encode({object = cjson.decode('{}'), list = cjson.decode('[]'), n = cjson.decode('[12345678901234567]')[1]})"
    found = store.transact(holder, "a", LuaEffect(source))
    assert found == {"object": {}, "list": {}, "n": 1.2345678901235e16}, f"gave {sorted(found.items())}"


def effects_libraries(has: Kit) -> None:
    """The libraries that a server gives to scripts."""
    store = has.store
    holder = store.claim("w")
    source = (
        "assert(bit.band(6, 3) == 2 and struct.size('I4') == 4 and #cmsgpack.pack({1}) == 2) "
        "return cjson.encode(redis.sha1hex(''))"
    )
    assert str(store.transact(holder, "a", LuaEffect(source))).startswith("da39a3ee")


def supplying(has: Kit) -> None:
    """A supplied value stands; messages have keys of their own, in order, though they come at once."""
    store = has.store
    assert store.supply("w", "input", "first") == "first"
    assert store.supply("w", "input", "second") == "first"
    together(*[lambda: store.append("w", "hello")] * 12)
    last = store.append("w", "last")
    keys = list(store.load("w"))
    assert len(keys) == 14 and keys[1:] == sorted(keys[1:]) and keys[-1] == last.key


def discarding(has: Kit) -> None:
    """A deletion counts, and fences the pass in flight."""
    store = has.store
    holder = store.claim("w")
    store.record(holder, "a", 1)
    assert store.discard("w") == 1
    try:
        store.record(holder, "b", 1)
    except Fenced:
        pass
    else:
        raise AssertionError("a deleted workflow's pass has recorded")
    assert store.load("w") == {} and store.claim("w") is not None


def _next(queue: Any, within: timedelta = SOON) -> Delivery | None:
    found: Delivery | None = queue.next_ready(within)
    return found


def answering(has: Kit) -> None:
    """What is made ready is taken once, and is gone when answered for. A reader that waits is woken."""
    queue = has.queue
    queue.make_ready("a")
    delivery = _next(queue)
    assert delivery is not None and delivery.workflow == "a"
    assert _next(queue, ms(50)) is None
    queue.done(delivery)
    sleep(0.5)
    assert _next(queue, ms(50)) is None and queue.reclaim(timedelta(0)) is None
    waiting = Started(lambda: _next(queue, timedelta(seconds=5)))
    sleep(0.05)
    queue.make_ready("b")
    found = waiting.result()
    assert found is not None and found.workflow == "b"


def sleeping(has: Kit) -> None:
    """A deadline answers for its delivery, and wakes when it has come."""
    queue = has.queue
    queue.make_ready("a")
    delivery = _next(queue)
    assert delivery is not None
    queue.wake_at(delivery, now_utc() + ms(300))
    queue.wake_due()
    assert _next(queue, ms(50)) is None
    sleep(0.4)
    queue.wake_due()
    found = _next(queue)
    assert found is not None and found.workflow == "a"


def taking_over(has: Kit) -> None:
    """What shows no sign of life is taken over, what shows one is not; and an answer that comes late moves nothing."""
    queue = has.queue
    queue.make_ready("a")
    lost = _next(queue)
    assert lost is not None

    def taken() -> Delivery | None:
        found: Delivery | None = queue.reclaim(LEASE)
        return found if found is not None else _next(queue, ms(10))

    sleep(0.3)
    lost = queue.extend(lost, LEASE)
    sleep(0.3)
    assert taken() is None
    found = eventually(taken, describing="it is taken over", within=5)
    assert found is not None and found.workflow == "a"
    queue.done(found)
    assert taken() is None


def cancelling(has: Kit) -> None:
    """A cancellation drops what is ready, asleep and out."""
    queue = has.queue
    for _ in range(2):
        queue.make_ready("a")
    delivery = _next(queue)
    assert delivery is not None
    queue.make_ready("b")
    while (other := _next(queue)) is not None and other.workflow != "b":
        pass
    assert other is not None
    queue.wake_at(other, now_utc() + ms(200))
    queue.cancel("b")
    queue.cancel("a")
    queue.wake_at(delivery, now_utc())
    sleep(0.45)
    queue.wake_due()
    assert queue.reclaim(timedelta(0)) is None and _next(queue, ms(50)) is None
    queue.make_ready("a")
    assert _next(queue) is not None


def trimming(has: Kit) -> None:
    """What is answered for is removed, and nothing else."""
    queue = has.queue
    for n in range(5):
        queue.make_ready(f"w{n}")
    for _ in range(2):
        delivery = _next(queue)
        assert delivery is not None
        queue.done(delivery)
    assert queue.trim() == 2
    assert has.redis.xlen(queue.ready_key) == 3


def together_as_one(has: Kit) -> None:
    """A value and its wakeup, a message and its, and a deletion."""
    durable = has.durable
    durable.arrive("w", "input", [1, 2])
    durable.deliver("w", "hello")
    found = _next(durable.scheduler)
    assert found is not None and found.workflow == "w"
    assert list(durable.checkpointer.load("w"))[0] == "input"
    assert durable.delete("w") == 2
    sleep(0.45)
    assert durable.scheduler.reclaim(timedelta(0)) is None
    assert _next(durable.scheduler, ms(50)) is None


def working(has: Kit) -> None:
    """A worker runs ten workflows through steps, a sleep and a value that arrives."""

    def order(run: Run) -> str:
        def charged() -> str:
            return f"receipt of {run.workflow}"

        receipt = run.step("charged", charged, str)
        run.sleep("cooling off", ms(100))
        by = run.awaiting("approval", str)

        def sign() -> str:
            return f"{receipt}, approved by {by}"

        return run.step("result", sign, str)

    stop = Event()
    names = [f"order-{n}" for n in range(10)]
    worker = Started(lambda: work(has.durable, order, within=ms(200), stop=stop))
    for name in names:
        has.durable.scheduler.make_ready(name)

    def all_have(key: str) -> bool:
        return all([key in has.store.load(name) for name in names])

    eventually(lambda: all_have("cooling off"), describing="all are asleep")
    sleep(0.2)
    for name in names:
        has.durable.arrive(name, "approval", "me")
    eventually(lambda: all_have("result"), describing="all are done", within=15)
    stop.set()
    worker.result()
    assert (has.store.load("order-3"))["result"] == "receipt of order-3, approved by me"


STORE: dict[str, Callable[[Kit], Any]] = {
    "record, replay": recording,
    "claim, contention": contention,
    "a claim lapses": lapsing,
    "transact": transacting,
    "supply, append": supplying,
    "discard": discarding,
}
QUEUE: dict[str, Callable[[Kit], Any]] = {
    "make_ready, next_ready, done": answering,
    "wake_at, wake_due": sleeping,
    "extend, reclaim": taking_over,
    "cancel": cancelling,
    "arrive, deliver, delete": together_as_one,
    "work: a sleep and a value": working,
}
STREAM: dict[str, Callable[[Kit], Any]] = {"trim": trimming}
EFFECT: dict[str, Callable[[Kit], Any]] = {
    "cjson as on a server": effects_json,
    "bit, struct, cmsgpack, sha1hex": effects_libraries,
}
