"""What a workflow needs of a store and a queue, in named scenarios: `doubles.py` runs them over in-process engines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import uuid4

from durably_redis_async import (
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
from support_async import Event, Started, eventually, sleep, together

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


async def recording(has: Kit) -> None:
    """A record stands, is read in order, and carries its time."""
    store = has.store
    holder = await store.claim("w")
    for n in range(20):
        assert (await store.record(holder, f"step {n}", {"n": n, "big": 2**53, "none": []})).first
    again = await store.record(holder, "step 3", "other")
    assert not again.first and again.value["n"] == 3
    records = await store.load("w")
    assert list(records) == [f"step {n}" for n in range(20)]
    assert records["step 7"] == {"n": 7, "big": 2**53, "none": []}
    assert abs((await store.history("w"))["step 0"].at - now_utc()) < timedelta(minutes=1)
    assert await store.load("unknown") == {}


async def contention(has: Kit) -> None:
    """Of many claims at once one wins; the next has a higher token, and fences it."""
    store = has.store
    taken = await together(*[lambda: store.claim("w")] * 8)
    (first,) = [one for one in taken if one is not None]
    await store.release(first)
    second = await store.claim("w")
    assert second.token > first.token
    try:
        await store.record(first, "a", 1)
    except Fenced:
        pass
    else:
        raise AssertionError("a pass that lost its claim has recorded")
    assert await store.load("w") == {}


async def lapsing(has: Kit) -> None:
    """A claim lapses without signs of life, and is kept by them."""
    store = has.store
    first = await store.claim("w", alive=SOON)
    await sleep(0.2)
    assert await store.renew(first, alive=SOON)
    await sleep(0.2)
    assert await store.claim("w") is None
    await sleep(0.2)
    assert await store.claim("w") is not None
    assert not await store.renew(first)


async def transacting(has: Kit) -> None:
    """An effect happens once, with its record; one that fails before a write has not happened, after one it is torn."""
    store = has.store
    holder = await store.claim("w")
    ran: list[int] = []

    async def count() -> object:
        ran.append(1)
        return {"at": len(ran)}

    async def fails() -> object:
        raise LookupError("not yet")

    async def tears() -> object:
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
        assert await store.transact(holder, "once", effects[0]) == {"at": 1}
    for number, expected in ((1, Exception), (2, EffectTorn), (2, EffectTorn)):
        try:
            await store.transact(holder, f"effect {number}", effects[number])
        except expected as error:
            assert (number == 2) == isinstance(error, EffectTorn), repr(error)
        else:
            raise AssertionError("a failed effect gave a result")
    assert (len(ran) if has.redis is None else int(await has.redis.get(key))) == 2
    assert list(await store.load("w")) == ["once"]


async def effects_json(has: Kit) -> None:
    """What a server's cjson makes of empty objects, empty lists and great integers."""
    store = has.store
    holder = await store.claim("w")
    source = "return cjson.encode({object = cjson.decode('{}'), list = cjson.decode('[]'), n = cjson.decode('[12345678901234567]')[1]})"
    found = await store.transact(holder, "a", LuaEffect(source))
    assert found == {"object": {}, "list": {}, "n": 1.2345678901235e16}, f"gave {sorted(found.items())}"


async def effects_libraries(has: Kit) -> None:
    """The libraries that a server gives to scripts."""
    store = has.store
    holder = await store.claim("w")
    source = (
        "assert(bit.band(6, 3) == 2 and struct.size('I4') == 4 and #cmsgpack.pack({1}) == 2) "
        "return cjson.encode(redis.sha1hex(''))"
    )
    assert str(await store.transact(holder, "a", LuaEffect(source))).startswith("da39a3ee")


async def supplying(has: Kit) -> None:
    """A supplied value stands; messages have keys of their own, in order, though they come at once."""
    store = has.store
    assert await store.supply("w", "input", "first") == "first"
    assert await store.supply("w", "input", "second") == "first"
    await together(*[lambda: store.append("w", "hello")] * 12)
    last = await store.append("w", "last")
    keys = list(await store.load("w"))
    assert len(keys) == 14 and keys[1:] == sorted(keys[1:]) and keys[-1] == last.key


async def discarding(has: Kit) -> None:
    """A deletion counts, and fences the pass in flight."""
    store = has.store
    holder = await store.claim("w")
    await store.record(holder, "a", 1)
    assert await store.discard("w") == 1
    try:
        await store.record(holder, "b", 1)
    except Fenced:
        pass
    else:
        raise AssertionError("a deleted workflow's pass has recorded")
    assert await store.load("w") == {} and await store.claim("w") is not None


async def _next(queue: Any, within: timedelta = SOON) -> Delivery | None:
    found: Delivery | None = await queue.next_ready(within)
    return found


async def answering(has: Kit) -> None:
    """What is made ready is taken once, and is gone when answered for. A reader that waits is woken."""
    queue = has.queue
    await queue.make_ready("a")
    delivery = await _next(queue)
    assert delivery is not None and delivery.workflow == "a"
    assert await _next(queue, ms(50)) is None
    await queue.done(delivery)
    await sleep(0.5)
    assert await _next(queue, ms(50)) is None and await queue.reclaim(timedelta(0)) is None
    waiting = Started(lambda: _next(queue, timedelta(seconds=5)))
    await sleep(0.05)
    await queue.make_ready("b")
    found = await waiting.result()
    assert found is not None and found.workflow == "b"


async def sleeping(has: Kit) -> None:
    """A deadline answers for its delivery, and wakes when it has come."""
    queue = has.queue
    await queue.make_ready("a")
    delivery = await _next(queue)
    assert delivery is not None
    await queue.wake_at(delivery, now_utc() + ms(300))
    await queue.wake_due()
    assert await _next(queue, ms(50)) is None
    await sleep(0.4)
    await queue.wake_due()
    found = await _next(queue)
    assert found is not None and found.workflow == "a"


async def taking_over(has: Kit) -> None:
    """What shows no sign of life is taken over, what shows one is not; and an answer that comes late moves nothing."""
    queue = has.queue
    await queue.make_ready("a")
    lost = await _next(queue)
    assert lost is not None

    async def taken() -> Delivery | None:
        found: Delivery | None = await queue.reclaim(LEASE)
        return found if found is not None else await _next(queue, ms(10))

    await sleep(0.3)
    lost = await queue.extend(lost, LEASE)
    await sleep(0.3)
    assert await taken() is None
    found = await eventually(taken, describing="it is taken over", within=5)
    assert found is not None and found.workflow == "a"
    await queue.done(found)
    assert await taken() is None


async def cancelling(has: Kit) -> None:
    """A cancellation drops what is ready, asleep and out."""
    queue = has.queue
    for _ in range(2):
        await queue.make_ready("a")
    delivery = await _next(queue)
    assert delivery is not None
    await queue.make_ready("b")
    while (other := await _next(queue)) is not None and other.workflow != "b":
        pass
    assert other is not None
    await queue.wake_at(other, now_utc() + ms(200))
    await queue.cancel("b")
    await queue.cancel("a")
    await queue.wake_at(delivery, now_utc())
    await sleep(0.45)
    await queue.wake_due()
    assert await queue.reclaim(timedelta(0)) is None and await _next(queue, ms(50)) is None
    await queue.make_ready("a")
    assert await _next(queue) is not None


async def trimming(has: Kit) -> None:
    """What is answered for is removed, and nothing else."""
    queue = has.queue
    for n in range(5):
        await queue.make_ready(f"w{n}")
    for _ in range(2):
        delivery = await _next(queue)
        assert delivery is not None
        await queue.done(delivery)
    assert await queue.trim() == 2
    assert await has.redis.xlen(queue.ready_key) == 3


async def together_as_one(has: Kit) -> None:
    """A value and its wakeup, a message and its, and a deletion."""
    durable = has.durable
    await durable.arrive("w", "input", [1, 2])
    await durable.deliver("w", "hello")
    found = await _next(durable.scheduler)
    assert found is not None and found.workflow == "w"
    assert list(await durable.checkpointer.load("w"))[0] == "input"
    assert await durable.delete("w") == 2
    await sleep(0.45)
    assert await durable.scheduler.reclaim(timedelta(0)) is None
    assert await _next(durable.scheduler, ms(50)) is None


async def working(has: Kit) -> None:
    """A worker runs ten workflows through steps, a sleep and a value that arrives."""

    async def order(run: Run) -> str:
        async def charged() -> str:
            return f"receipt of {run.workflow}"

        receipt = await run.step("charged", charged, str)
        await run.sleep("cooling off", ms(100))
        by = await run.awaiting("approval", str)

        async def sign() -> str:
            return f"{receipt}, approved by {by}"

        return await run.step("result", sign, str)

    stop = Event()
    names = [f"order-{n}" for n in range(10)]
    worker = Started(lambda: work(has.durable, order, within=ms(200), stop=stop))
    for name in names:
        await has.durable.scheduler.make_ready(name)

    async def all_have(key: str) -> bool:
        return all([key in await has.store.load(name) for name in names])

    await eventually(lambda: all_have("cooling off"), describing="all are asleep")
    await sleep(0.2)
    for name in names:
        await has.durable.arrive(name, "approval", "me")
    await eventually(lambda: all_have("result"), describing="all are done", within=15)
    stop.set()
    await worker.result()
    assert (await has.store.load("order-3"))["result"] == "receipt of order-3, approved by me"


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
