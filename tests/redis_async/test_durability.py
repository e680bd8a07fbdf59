"""Durability that is asked for: never said to be there when it is not, on any path by which a write comes about."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest
from durably.embedded import EmbeddedServer
from durably_redis_async import (
    Completed,
    DurabilityUnsupported,
    Fenced,
    LuaEffect,
    MemoryCheckpointer,
    MsgpackCodec,
    NotDurable,
    Pass,
    RedisCheckpointer,
    RedisDurable,
    RedisSetScheduler,
    RedisStreamScheduler,
    Run,
    SplitDurable,
    claimed,
    resume,
    work,
)
from proxy import serving
from redis.exceptions import ResponseError
from replicated import Replicated, said
from support import ms
from support_async import Event, Redis, Started, eventually, sleep, together
from support_async import client as connect

SHORT = ms(300)
"""For acknowledgements that do not come."""

PATIENT = ms(4000)
"""For those that do, on a machine that is busy."""

EFFECT = LuaEffect("return '7'")


def knows_waitaof(server: EmbeddedServer) -> bool:
    try:
        said(server, "WAITAOF", 0, 0, 1)
    except ResponseError:
        return False
    return True


@pytest.fixture
async def master(replicated: Replicated) -> AsyncIterator[Redis]:
    """A client of the master."""
    client = connect(replicated.url)
    yield client
    await client.aclose()


@pytest.fixture
async def other(replicated: Replicated) -> AsyncIterator[Redis]:
    """Another one: connections of its own."""
    client = connect(replicated.url)
    yield client
    await client.aclose()


def on_replicas(client: Redis, namespace: str, **options: Any) -> RedisCheckpointer:
    options.setdefault("acknowledged_within", SHORT)
    return RedisCheckpointer(client, namespace, durability="replicas", **options)


async def test_a_write_that_returns_is_on_the_replica(
    replicated: Replicated, master: Redis, namespace: str
) -> None:
    store = on_replicas(master, namespace, acknowledged_within=PATIENT)
    replica = connect(replicated.replica.url)
    holder = await claimed(store, "w")
    for n in range(20):
        await store.record(holder, f"s{n}", n)
        assert await replica.hexists(store.hash_key("w"), f"s{n}")
    await store.supply("w", "go", 1)
    assert await replica.hexists(store.hash_key("w"), "go")
    entry = await store.append("w", "hi")
    assert await replica.hexists(store.hash_key("w"), entry.key)
    assert await store.transact(holder, "t", EFFECT) == 7
    assert await replica.hexists(store.hash_key("w"), "t")
    await replica.aclose()


def writes(store: RedisCheckpointer, holder: Pass, queue: RedisStreamScheduler) -> dict[str, Any]:
    """Every call that can be asked for durability, as it is made again by somebody else."""
    whole, split = RedisDurable(store, queue), SplitDurable(store, queue)
    return {
        "record": partial(store.record, holder, "record", 1),
        "record, another value": partial(store.record, holder, "record", 2),
        "transact": partial(store.transact, holder, "transact", EFFECT),
        "supply": partial(store.supply, "w", "supply", 1),
        "append": partial(store.append, "w", 1),
        "arrive": partial(whole.arrive, "w", "arrive", 1),
        "deliver": partial(whole.deliver, "w", 1),
        "arrive, split": partial(split.arrive, "w", "split", 1),
        "deliver, split": partial(split.deliver, "w", 1),
        "deliver, once": partial(split.deliver, "w", 1, once="a"),
        "run.start": partial(whole.post_in_step, holder, "run.start", "child", 1, "input"),
        "run.send": partial(whole.post_in_step, holder, "run.send", "w", 1, None),
        "confirm": partial(store.confirm, holder, "record"),
    }


async def test_without_an_acknowledgement_no_call_returns_and_what_it_wrote_stands(
    replicated: Replicated, master: Redis, other: Redis, namespace: str
) -> None:
    store, again = on_replicas(master, namespace), on_replicas(other, namespace)
    queue, queue_again = RedisStreamScheduler(master, namespace), RedisStreamScheduler(other, namespace)
    holder = await claimed(store, "w")
    await again.load("w")
    replicated.pause()
    for name, call in writes(store, holder, queue).items():
        with pytest.raises(
            NotDurable, match="'w'.*asked for 1 replica within 0.3 s, reached: 0 replicas of 1"
        ):
            returned = await call()
            pytest.fail(f"{name} returned {returned}")
    assert await queue.available(10) == 7, "what arrived and what was delivered has asked for a pass"
    found = await store.load("w")
    assert {"record": 1, "transact": 7, "supply": 1, "arrive": 1, "split": 1}.items() <= found.items()
    # the second act of each finds what is there, on a connection that has written nothing
    for name, call in writes(again, holder, queue_again).items():
        with pytest.raises(NotDurable):
            returned = await call()
            pytest.fail(f"{name}, made again, returned {returned}")
    replicated.resume()
    patient = on_replicas(other, namespace, acknowledged_within=PATIENT)
    for call in writes(patient, holder, queue_again).values():
        await call()
    messages = [key for key in await store.load("w") if key.startswith("inbox:")]
    assert len(messages) == 11, "each append is a message of its own, but for those of a name, or of a step"
    assert await store.load("child") == {"input": 1}


@pytest.mark.parametrize(
    "name", ["record", "transact", "supply", "append", "arrive", "deliver", "deliver, once", "run.start"]
)
async def test_a_call_that_is_sent_again_proves_what_the_first_wrote(
    replicated: Replicated, master: Redis, namespace: str, name: str
) -> None:
    with serving(replicated.master) as proxy:
        far = connect(proxy.url)
        store, queue = on_replicas(far, namespace), RedisSetScheduler(far, namespace)
        patient = on_replicas(far, namespace, acknowledged_within=PATIENT)
        holder = await claimed(store, "w")
        call = writes(patient, holder, queue)[name]  # type: ignore[arg-type]
        await writes(patient, holder, queue)["supply"]()  # type: ignore[arg-type]
        if name != "supply":
            await call()  # the scripts are known from here on
        await store.discard("w")
        holder = await claimed(store, "w")
        call = writes(store, holder, queue)[name]  # type: ignore[arg-type]
        replicated.pause()
        proxy.swallow_next("evalsha")
        with pytest.raises(NotDurable):
            returned = await call()
            pytest.fail(f"returned {returned}")
        assert proxy.swallowed == 1, "the reply was not lost"
        assert len(await store.load("w")) == 1
        replicated.resume()
        replicated.until_linked()
        proxy.swallow_next("evalsha")
        await writes(patient, holder, queue)[name]()  # type: ignore[arg-type]
        assert proxy.swallowed == 2, "the reply was not lost"
        await far.aclose()


async def test_scripts_that_the_server_forgot_change_nothing(
    replicated: Replicated, master: Redis, namespace: str
) -> None:
    store = on_replicas(master, namespace)
    holder = await claimed(store, "w")
    await store.record(holder, "a", 1, durability="memory")
    replicated.pause()
    await master.script_flush()
    with pytest.raises(NotDurable):
        await store.record(holder, "b", 1)
    await master.script_flush()
    failures = 0

    async def record(n: int) -> None:
        nonlocal failures
        try:
            await store.record(holder, f"c{n}", 1)
        except NotDurable:
            failures += 1

    await together(*(partial(record, n) for n in range(5)))
    assert failures == 5
    replicated.resume()
    assert len(await store.load("w")) == 7


async def test_a_step_may_ask_for_more_than_its_store_and_a_replay_is_no_way_round(
    replicated: Replicated, master: Redis, namespace: str
) -> None:
    store = RedisCheckpointer(master, namespace, acknowledged_within=SHORT)
    ran: list[str] = []

    async def body(run: Run) -> int:
        async def effect() -> int:
            ran.append("effect")
            return 1

        await run.step("plain", effect, int)
        return await run.step("charged", effect, int, durability="replicas")

    async def one_pass() -> Any:
        holder = await claimed(store, "w")
        try:
            return await resume(holder, store, body)
        finally:
            await store.release(holder)

    replicated.pause()
    for _ in range(3):
        with pytest.raises(NotDurable, match="'charged' of workflow 'w' is recorded"):
            returned = await one_pass()
            pytest.fail(f"came to {returned}")
    assert ran == ["effect", "effect"], "what is recorded does not run again"
    replicated.resume()
    replicated.until_linked()
    store = RedisCheckpointer(master, namespace, acknowledged_within=PATIENT)
    await store.prepare("replicas")
    before = replicated.calls("wait")
    assert (await one_pass()).value == 1
    assert replicated.calls("wait") == before + 1
    with pytest.raises(Fenced):
        await store.confirm(Pass("w", 1), "charged", durability="replicas")


@pytest.mark.parametrize("kind", [RedisDurable, SplitDurable])
async def test_what_a_body_sent_is_proven_before_a_replay_goes_on(
    replicated: Replicated, master: Redis, namespace: str, kind: Any
) -> None:
    store = on_replicas(master, namespace)
    durable: Any = kind(store, RedisStreamScheduler(master, namespace))

    async def body(run: Run) -> str:
        await run.start("started", "child", 1)
        return await run.send("sent", "child", "hi")

    async def one_pass() -> Any:
        holder = await claimed(store, "w")
        try:
            return await resume(holder, store, body, durable=durable)
        finally:
            await store.release(holder)

    replicated.pause()
    for _ in range(3):
        with pytest.raises(NotDurable, match="'started' of workflow 'w' is recorded"):
            returned = await one_pass()
            pytest.fail(f"came to {returned}")
    replicated.resume()
    replicated.until_linked()
    store = on_replicas(master, namespace, acknowledged_within=PATIENT)
    durable = kind(store, RedisStreamScheduler(master, namespace))
    first = await one_pass()
    replicated.pause()
    store = on_replicas(master, namespace)
    with pytest.raises(NotDurable):
        returned = await one_pass()
        pytest.fail(f"came to {returned}")
    replicated.resume()
    replicated.until_linked()
    store = on_replicas(master, namespace, acknowledged_within=PATIENT)
    assert await one_pass() == first
    child = await store.load("child")
    assert len(child) == 2 and set(child.values()) == {1, "hi"}, "each arrived once"


async def test_a_sleep_that_is_over_is_proven_before_the_pass_goes_on(
    replicated: Replicated, master: Redis, namespace: str
) -> None:
    store = on_replicas(master, namespace)

    async def body(run: Run) -> int:
        await run.sleep("nap", ms(100))
        return 1

    async def one_pass() -> Any:
        holder = await claimed(store, "w")
        try:
            return await resume(holder, store, body)
        finally:
            await store.release(holder)

    await store.prepare()
    replicated.pause()
    for _ in range(3):
        with pytest.raises(NotDurable, match="'nap' of workflow 'w' is recorded"):
            returned = await one_pass()
            pytest.fail(f"came to {returned}")
        await sleep(0.1)
    replicated.resume()
    replicated.until_linked()
    store = on_replicas(master, namespace, acknowledged_within=PATIENT)
    assert await one_pass() == Completed(1)


async def test_one_look_per_pass_covers_all_that_it_was_handed(
    replicated: Replicated, master: Redis, namespace: str
) -> None:
    store = on_replicas(master, namespace, acknowledged_within=PATIENT)
    await store.supply("w", "go", 1)
    await store.append("w", "hi")
    other = await claimed(store, "other")  # the server knows the scripts from here on
    await store.transact(other, "t", EFFECT)
    await store.record(other, "a", 1)
    await store.confirm(other, "a")

    async def body(run: Run) -> int:
        async def effect() -> int:
            return 1

        for n in range(5):
            await run.step(f"s{n}", effect, int)
            await run.transact(f"t{n}", EFFECT, int)
        await run.awaiting("go", int)
        await run.receive("mail")
        return 1

    for looks in (10 + 1 + 1, 1):  # ten steps, one read, what was supplied; then all of it handed back
        holder = await claimed(store, "w")
        before = replicated.calls("wait")
        await resume(holder, store, body)
        assert replicated.calls("wait") - before == looks
        await store.release(holder)


async def test_an_acknowledgement_is_of_the_connection_that_wrote(
    replicated: Replicated, master: Redis, other: Redis, namespace: str
) -> None:
    store = on_replicas(master, namespace)
    holder = await claimed(store, "w")
    replicated.pause()
    await other.ping()
    with pytest.raises(NotDurable):  # on a connection that has written nothing, nothing is missing
        await on_replicas(other, namespace).confirm(holder, "a")
    returned: list[int] = []

    async def record(n: int) -> None:
        try:
            await store.record(holder, f"s{n}", n)
        except NotDurable:
            return
        returned.append(n)

    async def read() -> None:
        for _ in range(20):
            await store.load("w")

    await together(*(partial(record, n) for n in range(20)), *(read for _ in range(10)))
    assert returned == []
    assert len(await store.load("w")) == 20


async def test_calls_that_are_gathered_share_an_acknowledgement(
    replicated: Replicated, master: Redis, namespace: str
) -> None:
    store = on_replicas(master, namespace, acknowledged_within=PATIENT)
    holder = await claimed(store, "w")
    await store.record(holder, "first", 1)
    before = replicated.calls("wait")
    await together(*(partial(store.record, holder, f"s{n}", n) for n in range(60)))
    assert 0 < replicated.calls("wait") - before < 60
    await together(
        partial(store.record, holder, "a", 1),
        partial(store.record, holder, "b", 1, durability="memory"),
        partial(store.supply, "w", "c", 1),
    )


async def test_what_asks_for_nothing_does_not_wait_for_what_asks(
    replicated: Replicated, master: Redis, namespace: str
) -> None:
    store = on_replicas(master, namespace, acknowledged_within=PATIENT)
    holder = await claimed(store, "w")
    await store.record(holder, "first", 1)
    replicated.pause()
    waiting = [Started(store.record, holder, f"slow{n}", 1) for n in range(8)]
    await sleep(0.2)
    began = time.monotonic()
    await store.record(holder, "quick", 1, durability="memory")
    assert await store.renew(holder)
    assert time.monotonic() - began < 1.5
    replicated.resume()
    for one in waiting:
        assert (await one.result()).first


async def test_the_disk_acknowledges_or_is_refused_before_anything_is_written(
    own_server: EmbeddedServer, namespace: str
) -> None:
    client = connect(own_server.url)
    store = RedisCheckpointer(client, namespace, durability="disk")
    if not knows_waitaof(own_server):
        with pytest.raises(DurabilityUnsupported, match="WAITAOF"):
            await store.prepare()
        with pytest.raises(DurabilityUnsupported, match="WAITAOF"):
            await store.supply("w", "a", 1)
        assert await store.load("w") == {}
        await client.aclose()
        return
    await store.prepare()
    holder = await claimed(store, "w")
    assert (await store.record(holder, "a", 1)).first
    assert await store.transact(holder, "t", EFFECT) == 7
    await client.aclose()
    own_server.kill()
    own_server.restart()
    client = connect(own_server.url)
    store = RedisCheckpointer(client, namespace, durability="disk", replicas=1, acknowledged_within=SHORT)
    assert await store.load("w") == {"a": 1, "t": 7}
    with pytest.raises(
        NotDurable, match="this server's disk and 1 replica within.*: on this.*, 0 replicas of 1"
    ):
        await store.supply("w", "b", 1)
    said(own_server, "CONFIG", "SET", "appendonly", "no")
    with pytest.raises(NotDurable, match="the server says.*appendonly is disabled"):
        await store.supply("w", "c", 1)
    await client.aclose()


async def test_a_server_that_cannot_is_refused_before_the_effect_runs(
    redis: Redis, server: EmbeddedServer, namespace: str
) -> None:
    store = RedisCheckpointer(redis, namespace)

    async def body(run: Run) -> int:
        async def effect() -> int:
            pytest.fail("the effect ran")

        return await run.step("a", effect, int, durability="disk")

    async def in_lua(run: Run) -> int:
        return await run.transact("a", EFFECT, int, durability="disk")

    for one in (body, in_lua):
        holder = await claimed(store, "w")
        with pytest.raises(DurabilityUnsupported, match="WAITAOF|appendonly"):
            await resume(holder, store, one)
        await store.release(holder)
    assert await store.load("w") == {}
    whole = RedisDurable(RedisCheckpointer(redis, namespace, durability="disk"), RedisSetScheduler(redis))
    for call in (partial(whole.arrive, "w", "a", 1), partial(whole.deliver, "w", 1)):
        with pytest.raises(DurabilityUnsupported):
            await call()
    assert await store.load("w") == {}


async def test_a_setting_under_which_the_answer_is_no_promise_is_refused(
    own_server: EmbeddedServer, namespace: str
) -> None:
    client = connect(own_server.url)
    said(own_server, "CONFIG", "SET", "appendfsync", "no")
    store = RedisCheckpointer(client, namespace, durability="disk")
    with pytest.raises(DurabilityUnsupported, match="appendfsync no|WAITAOF"):
        await store.prepare()
    info = said(own_server, "INFO", "server")
    if info.get("server_name") == "valkey":
        said(own_server, "CONFIG", "SET", "appendfsync", "everysec")
        with pytest.raises(DurabilityUnsupported, match="Valkey.*before the file is synced.*always"):
            await store.prepare()
    elif knows_waitaof(own_server) and not str(info["redis_version"]).startswith("7.4."):
        said(own_server, "CONFIG", "SET", "appendfsync", "everysec")
        patient = RedisCheckpointer(client, namespace, durability="disk", acknowledged_within=PATIENT)
        for n in range(3):
            assert await patient.supply("w", f"s{n}", n) == n
    await client.aclose()


async def test_a_worker_tries_again_until_it_is_acknowledged(
    replicated: Replicated, master: Redis, namespace: str
) -> None:
    store = on_replicas(master, namespace)
    queue = RedisStreamScheduler(master, namespace, lease=ms(300))
    ran: list[str] = []
    ended: list[str] = []
    stop = Event()

    async def body(run: Run) -> None:
        async def effect() -> int:
            ran.append("effect")
            return 1

        await run.step("charged", effect, int)
        ended.append(run.workflow)

    await queue.prepare()
    await queue.make_ready("w")
    replicated.pause()
    working = Started(work, SplitDurable(store, queue), body, stop=stop, within=ms(50), tick=ms(10))
    await sleep(1.5)
    assert ran == ["effect"] and ended == []
    replicated.resume()

    async def over() -> bool:
        return ended != []

    await eventually(over, describing="the step is handed back when a replica has it")
    stop.set()
    await working.result()
    assert ran == ["effect"]


async def test_a_server_that_dies_meanwhile_proves_it_when_it_is_back(
    own_replicated: Replicated, namespace: str
) -> None:
    client = connect(own_replicated.url)
    store = on_replicas(client, namespace, acknowledged_within=PATIENT)
    holder = await claimed(store, "w")
    await store.record(holder, "a", 1)
    own_replicated.pause()
    waiting = Started(store.record, holder, "b", 2)
    await sleep(0.3)
    own_replicated.master.kill()
    own_replicated.resume()
    own_replicated.master.restart()
    own_replicated.until_linked()
    try:
        assert (await waiting.result()).first
    except NotDurable:  # the replica took longer to come back than this call waits
        assert (await store.record(holder, "b", 2)).first
    replica = connect(own_replicated.replica.url)
    assert await replica.hexists(store.hash_key("w"), "b")
    await replica.aclose()
    await client.aclose()


async def test_a_master_without_replicas_says_so(redis: Redis, namespace: str) -> None:
    store = on_replicas(redis, namespace, replicas=2)
    with pytest.raises(
        NotDurable, match="asked for 2 replicas within 0.3 s, reached: 0 replicas of 2"
    ) as caught:
        await store.supply("w", "a", 1)
    assert (caught.value.workflow, caught.value.key) == ("w", "a")
    assert await store.load("w") == {"a": 1}


async def test_a_codec_of_bytes_is_acknowledged_as_well(
    replicated: Replicated, master: Redis, namespace: str
) -> None:
    store = on_replicas(master, namespace, codec=MsgpackCodec(), acknowledged_within=PATIENT)
    holder = await claimed(store, "w")
    value = {"a": b"\xff\xfe"}
    assert (await store.record(holder, "a", value)).value == value
    assert (await store.record(holder, "a", {"b": 1})).value == value
    replicated.pause()
    with pytest.raises(NotDurable):
        await on_replicas(master, namespace, codec=MsgpackCodec()).record(holder, "a", {"b": 1})


async def test_what_does_not_fit_is_refused_at_construction(
    server: EmbeddedServer, redis: Redis, namespace: str
) -> None:
    wrong: list[dict[str, Any]] = [
        {"durability": "tape"},
        {"durability": "replicas", "replicas": 0},
        {"durability": "disk", "replicas": -1},
        {"durability": "replicas", "replicas": True},
        {"acknowledged_within": ms(0)},
    ]
    for options in wrong:
        with pytest.raises(ValueError):
            RedisCheckpointer(redis, **options)
    hasty = connect(server.url, socket_timeout=1.0)
    with pytest.raises(
        ValueError, match="acknowledged_within .2 s. must be shorter than.*socket_timeout .1 s"
    ):
        RedisCheckpointer(hasty, durability="replicas")
    RedisCheckpointer(hasty, durability="replicas", acknowledged_within=ms(500))
    store = RedisCheckpointer(hasty, namespace)
    with pytest.raises(ValueError, match="socket_timeout"):
        await store.record(await claimed(store, "hasty"), "a", 1, durability="replicas")
    await hasty.aclose()


async def test_a_store_in_memory_takes_the_word_and_a_wrong_one_is_refused() -> None:
    store = MemoryCheckpointer()
    holder = await claimed(store, "w")

    async def body(run: Run) -> int:
        async def effect() -> int:
            return 1

        await run.step("a", effect, int, durability="disk")
        await run.transact("t", effect, int, durability="replicas")
        with pytest.raises(ValueError, match="'memory', 'replicas' or 'disk'"):
            await run.step("b", effect, int, durability="tape")  # type: ignore[arg-type]
        return 1

    await resume(holder, store, body)
    assert list(await store.load("w")) == ["a", "t"]
    await resume(holder, store, body)
