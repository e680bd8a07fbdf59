"""A server that is out of memory: every script does all of its work or none, and what gives back still works."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import durably
import pytest
from durably.embedded import EmbeddedServer
from durably.sweep_scripts import LOOK, Look, look_keys, read_look
from durably_redis_async import (
    LuaEffect,
    NotDurable,
    RedisCheckpointer,
    RedisDurable,
    RedisSetScheduler,
    RedisStreamScheduler,
    claimed,
    now_utc,
)
from durably_redis_async._client import register, send
from durably_redis_async.sweep_queues import SetSide, StreamSide
from redis import Redis as Plain
from redis.exceptions import ResponseError
from support import ms
from support_async import client as connect

SCRIPTS = sorted(path.stem for path in (Path(durably.__file__).parent / "lua").glob("*.lua"))
GIVES_BACK = {
    "forget",
    "hand_back",
    "set_cancel",
    "set_finish",
    "set_suspend",
    "set_unpark",
    "stream_answer",
    "stream_cancel",
    "stream_consumers",
    "stream_hold",
    "stream_reclaim",
    "stream_sift",
    "stream_suspend",
    "stream_sweep",
    "stream_take",
    "stream_trim",
    "stream_unmark",
    "stream_unpark",
    "sweep_forgive",
}
READS = {
    "look",
    "set_available",
    "set_holding",
    "set_wake",
    "stream_available",
    "stream_holding",
    "stream_queued",
    "sweep_look",
}
LOST = Look("lost", 2**43, 1, None, 2**42)


def keyspace(server: EmbeddedServer) -> dict[bytes, tuple[object, float]]:
    """Everything that is there: each key's content, and when it ends in unix seconds (-1: never)."""
    client: Any = Plain.from_url(server.url)
    found: dict[bytes, tuple[object, float]] = {}
    try:
        for key in sorted(client.keys("*")):
            left, (seconds, micros) = client.pttl(key), client.time()
            ends = -1.0 if left < 0 else seconds + micros / 1e6 + left / 1e3
            found[key] = (client.dump(key), ends)
        return found
    finally:
        client.close()


def alike(one: dict[bytes, tuple[object, float]], other: dict[bytes, tuple[object, float]]) -> bool:
    """Whether two are the same, but for how exactly an expiry can be seen."""
    return {key: value for key, (value, _) in one.items()} == {
        key: value for key, (value, _) in other.items()
    } and all(abs(ends - other[key][1]) < 0.5 for key, (_, ends) in one.items())


class World:
    """One of everything, made while there was room: a claim, deliveries, sleepers, marks."""

    def __init__(self, client: Any, namespace: str) -> None:
        self.store = RedisCheckpointer(client, namespace, acknowledged_within=ms(20))
        self.stream = RedisStreamScheduler(client, namespace, lease=ms(50), scan=2)
        self.set = RedisSetScheduler(client, namespace)
        self.effect = LuaEffect("redis.call('SET', KEYS[1], 'x') return '1'", (f"{namespace}:{{w}}:n",))
        self.deliveries: dict[str, Any] = {}

    async def fill(self) -> World:
        await self.stream.prepare()
        self.holder = await claimed(self.store, "w")
        await self.store.record(self.holder, "a", {"some": "value"})
        await self.stream.make_ready("over")
        over = await self.stream.next_ready(ms(50))
        assert over is not None
        await self.stream.done(over)
        for name in ("answer", "suspend", "hold", "cancel", "park"):
            await self.stream.make_ready(name)
            await self.set.make_ready(name)
            self.deliveries[f"stream_{name}"] = await self.stream.next_ready(ms(50))
            self.deliveries[f"set_{name}"] = await self.set.next_ready(ms(50))
        await self.stream.make_ready("sleeper")
        asleep = await self.stream.next_ready(ms(50))
        assert asleep is not None
        await self.stream.wake_at(asleep, now_utc() - ms(5))
        await self.set.make_ready("sleeper")
        dozing = await self.set.next_ready(ms(50))
        assert dozing is not None
        await self.set.wake_at(dozing, now_utc() + ms(60_000))
        for queue in (self.stream, self.set):
            await queue.make_ready("parked")
            parked = await queue.next_ready(ms(50))
            assert parked is not None
            await queue.park(parked, "why")
        await self.stream.redis.xgroup_createconsumer(self.stream.ready_key, self.stream.group, "gone")
        await self.stream.make_ready("unread")
        await self.set.make_ready("unread")
        await self.stream.make_ready("cancelled")
        newest: Any = await self.stream.redis.xrevrange(self.stream.ready_key, count=1)
        self.cancelled = str(newest[0][0])
        await self.stream.cancel("cancelled")  # the stream is longer than `scan`: a mark is left
        self.sides: Any = [StreamSide(self.stream), SetSide(self.set)]
        self.asleep = [
            one for side in self.sides for one in (await side.sleepers("0"))[1] if one.workflow == "sleeper"
        ]
        ((_, self.since, _),) = (await self.sides[0].cancelled("0"))[1]
        return self

    def call(self, script: str) -> Callable[[], Any]:
        """What runs `script`."""
        store, stream, in_set = self.store, self.stream, self.set
        act = script.split("_")[-1]
        in_stream: Any = self.deliveries.get(f"stream_{act}")
        in_the_set: Any = self.deliveries.get(f"set_{act}")
        marked = [stream.ready_key, stream.marks_key]
        looks = register(store.redis, LOOK).call(look_keys(store.namespace, "w"), [1], read_look)
        in_sides: Any = self.sides
        calls: dict[str, Callable[[], Any]] = {
            "take": partial(store.claim, "other"),
            "stretch": partial(store.extend, self.holder, ms(900_000)),
            "still_here": partial(store.renew, self.holder),
            "write": partial(store.record, self.holder, "b", 1),
            "offer": partial(store.supply, "w", "c", 1),
            "file_away": partial(store.append, "w", 1),
            "transact": partial(store.transact, self.holder, "t", self.effect),
            "prove": partial(store.confirm, self.holder, "a", durability="replicas"),
            "forget": partial(store.discard, "w"),
            "hand_back": partial(store.release, self.holder),
            "stream_ring": partial(RedisDurable(store, stream).arrive, "w", "d", 1),
            "stream_move": stream.wake_due,
            "stream_hold": partial(stream.extend, in_stream, ms(100)),
            "stream_holding": partial(store.together, [stream.holding(self.deliveries["stream_hold"])]),
            "stream_answer": partial(stream.done, in_stream),
            "stream_suspend": partial(stream.wake_at, in_stream, now_utc() + ms(60_000)),
            "stream_cancel": partial(stream.cancel, "cancel"),
            "stream_sift": partial(stream.sifter, marked, [stream.group, self.cancelled, "cancelled"]),
            "stream_sweep": partial(stream.sweeper, marked, ["", "", 100]),
            "stream_unmark": partial(stream.unmarker, marked, ["9" * 15 + "-0", "0", 100]),
            "stream_take": partial(stream.take_now, 1),
            "stream_reclaim": partial(stream.reclaim, ms(0)),
            "stream_available": partial(stream.available, 10),
            "stream_trim": stream.trim,
            "set_ring": partial(RedisDurable(store, in_set).deliver, "w", 1),
            "set_take": partial(in_set.next_ready, ms(5)),
            "set_keep": partial(in_set.extend, self.deliveries["set_hold"], ms(900_000)),
            "set_holding": partial(store.together, [in_set.holding(self.deliveries["set_hold"])]),
            "set_finish": partial(in_set.done, self.deliveries["set_answer"]),
            "set_suspend": partial(in_set.wake_at, in_the_set, now_utc() + ms(60_000)),
            "set_cancel": partial(in_set.cancel, "cancel"),
            "set_wake": in_set.wake_and_look,
            "set_available": partial(in_set.available, 10),
            "look": partial(send, store.looking(self.holder, "a")),
            "sweep_look": partial(send, looks),
            "sweep_forgive": partial(send, in_sides[0].forgiving("cancelled", self.since)),
            "stream_queued": partial(in_sides[0].missing, {"x": LOST}),
            "stream_mend": partial(send, in_sides[0].mending("x", LOST)),
            "set_mend": partial(send, in_sides[1].mending("x", LOST)),
            "stream_park": partial(stream.park, in_stream, "why"),
            "set_park": partial(in_set.park, in_the_set, "why"),
            "stream_park_sleeper": partial(send, in_sides[0].parking("sleeper", self.asleep[0].said, "why")),
            "set_park_sleeper": partial(send, in_sides[1].parking("sleeper", self.asleep[1].said, "why")),
            "stream_unpark": partial(stream.unpark, "parked"),
            "set_unpark": partial(in_set.unpark, "parked"),
            "stream_consumers": partial(in_sides[0].consumers, ms(1)),
        }
        return calls[script]


@pytest.mark.parametrize("script", SCRIPTS)
async def test_out_of_memory_a_script_does_all_or_nothing(
    own_server: EmbeddedServer, namespace: str, script: str
) -> None:
    client = connect(own_server.url)
    world = await World(client, namespace).fill()
    call = world.call(script)
    await client.config_set("maxmemory-policy", "noeviction")
    await client.config_set("maxmemory", 1)
    before = keyspace(own_server)
    works = script in GIVES_BACK | READS
    try:
        await call()
    except ResponseError as error:
        assert "maxmemory" in str(error), error
        assert alike(keyspace(own_server), before)
        assert not works, f"{script} gives back, and was refused"
    else:
        assert works, f"{script} needs memory, and was not refused"
        if script in GIVES_BACK - {"stream_hold"}:
            assert not alike(keyspace(own_server), before), "it did nothing"
    await client.config_set("maxmemory", 0)
    with contextlib.suppress(NotDurable):  # there is no replica to prove anything
        await world.call(script)()
    await client.aclose()


async def test_what_gave_back_has_done_all_of_it(own_server: EmbeddedServer, namespace: str) -> None:
    client = connect(own_server.url)
    world = await World(client, namespace).fill()
    await client.config_set("maxmemory-policy", "noeviction")
    await client.config_set("maxmemory", 1)
    for script in ("stream_suspend", "set_suspend", "stream_answer", "set_finish", "hand_back"):
        await world.call(script)()
    await RedisDurable(world.store, world.stream).delete("cancel")
    await RedisDurable(world.store, world.set).delete("cancel")
    await client.config_set("maxmemory", 0)
    assert await client.zscore(world.stream.sleeping_key, "suspend") is not None
    pending: Any = await client.xpending(world.stream.ready_key, world.stream.group)
    assert pending["pending"] == 3, "what is held, and the cancelled one's name"
    left: Any = await client.zrange(world.set.schedule_key, 0, -1, withscores=True)
    scores = {name: float(score) for name, score in left}
    assert set(scores) == {"hold", "park", "sleeper", "suspend", "unread"}
    assert scores["suspend"] > scores["unread"] and scores["suspend"] == int(scores["suspend"])
    assert await world.store.claim("w") is not None
    await client.aclose()
