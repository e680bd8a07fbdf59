"""Calls that are sent together over one connection: whatever reads the replies, they are the same, and none is another's."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import redis
from durably.embedded import EmbeddedServer
from durably_redis_async import RedisCheckpointer, claimed
from durably_redis_async import _transport as transport
from durably_redis_async._client import Call, RedisTimeoutError, register, send, send_together
from durably_redis_async._transport import exchange, is_lean, packed
from proxy import Proxy, serving
from redis.backoff import NoBackoff
from redis.exceptions import DataError, ResponseError
from support_async import Redis, together
from support_async import client as connect

WAYS = ["straight", "public", "plain"]
"""By the parser's own reader, by the connection's public method, and by the client's pipelines."""

OLD = int(redis.__version__.partition(".")[0]) < 6


@pytest.fixture(autouse=True)
def only_one_server() -> None:
    if os.environ.get("DURABLY_TEST_SERVER") == "cluster":
        pytest.skip("a cluster's client is used plainly")


@pytest.fixture(params=[2, 3])
async def client(request: pytest.FixtureRequest, server: EmbeddedServer) -> AsyncIterator[Redis]:
    """A client of each protocol."""
    made = connect(server.url, protocol=request.param)
    yield made
    await made.aclose()


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, client: Redis, monkeypatch: pytest.MonkeyPatch) -> str:
    """How calls over `client` are sent."""
    if request.param == "public":
        monkeypatch.setattr(transport, "hiredis", None)
        monkeypatch.setattr(transport, "_pack", None)
    if request.param == "plain":
        transport.use_transport(client, "plain")
    return str(request.param)


@pytest.fixture
def proxy(server: EmbeddedServer) -> Iterator[Proxy]:
    with serving(server) as started:
        yield started


def call(client: Redis, *words: Any, raw: bool = False) -> Call:
    return Call(client, words, lambda reply: reply, raw=raw)


async def test_every_way_gives_the_same_replies(client: Redis, way: str, namespace: str) -> None:
    key = f"{namespace}:h"
    script = register(client, "return {1, 'two', {false, 'é', ARGV[1]}, redis.call('HLEN', KEYS[1])}")
    await client.script_load(script.source)
    replies = await send_together(
        [
            call(client, "HSET", key, "a", "é", "b", 1.5, "c", b"3"),
            call(client, "HGETALL", key),
            call(client, "HGETALL", f"{namespace}:nothing"),
            call(client, "GET", f"{namespace}:nothing"),
            call(client, "LPUSH", key, "x"),
            script.call([key], [-7], lambda reply: reply),
            call(client, "TIME"),
            call(client, "HGET", key, "a", raw=True),
            call(client, "EVAL", "return redis.error_reply('FENCED no')", 0),
            call(client, "CONFIG GET", "port"),
            call(client, "ECHO", "last"),
        ]
    )
    assert replies[:4] == [3, {"a": "é", "b": "1.5", "c": "3"}, {}, None]
    assert isinstance(replies[4], ResponseError) and "WRONGTYPE" in str(replies[4])
    assert replies[5] == [1, "two", [None, "é", "-7"], 3]
    assert len([int(one) for one in replies[6]]) == 2  # type: ignore[attr-defined]
    assert replies[7] == "é".encode()
    assert isinstance(replies[8], ResponseError) and "FENCED no" in str(replies[8])
    assert isinstance(replies[9], dict) and list(replies[9]) == ["port"]
    assert replies[10] == "last"


async def test_bytes_that_are_no_text_spoil_no_other_reply(client: Redis, way: str, namespace: str) -> None:
    key = f"{namespace}:k"
    await send(call(client, "SET", key, b"\xff\x00"))
    assert await send(call(client, "GET", key)) == b"\xff\x00"
    mixed = [
        call(client, "GET", key, raw=True),
        call(client, "ECHO", "é"),
        call(client, "ECHO", "é", raw=True),
    ]
    assert await send_together(mixed) == [b"\xff\x00", "é", "é".encode()]
    mixed.insert(1, call(client, "GET", key))
    assert await send_together(mixed) == [b"\xff\x00", b"\xff\x00", "é", "é".encode()]


async def test_many_callers_get_their_own_replies(client: Redis, way: str) -> None:
    async def say(number: int) -> None:
        for turn in range(10):
            text = f"{number}-{turn}"
            assert await send(call(client, "ECHO", text)) == text

    await together(*[lambda number=number: say(number) for number in range(40)])


async def test_a_pool_of_one_connection_is_enough(server: EmbeddedServer, namespace: str) -> None:
    client = connect(server.url, max_connections=1)
    store = RedisCheckpointer(client, namespace)
    holder = await claimed(store, "w")
    await together(*[lambda n=n: store.record(holder, f"s{n}", n) for n in range(30)])
    assert sorted((await store.load("w")).values()) == list(range(30))  # type: ignore[type-var]
    await client.aclose()


@pytest.mark.parametrize("size", [0, 1, 7, 40])
@pytest.mark.parametrize("way", ["straight", "public"])
async def test_a_connection_that_closes_within_a_batch_is_used_no_more(
    proxy: Proxy, way: str, size: int, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if way == "public":
        monkeypatch.setattr(transport, "hiredis", None)
    client = connect(proxy.url)
    store = RedisCheckpointer(client, namespace)
    holder = await claimed(store, "w")
    await store.record(holder, "first", 0)
    before = proxy.swallowed
    proxy.cut_after(size)
    made = await together(*[lambda n=n: store.record(holder, f"s{n}", n) for n in range(30)])
    assert proxy.swallowed == before + 1, "nothing was cut"
    assert [one.value for one in made] == list(range(30))
    assert all(one.first for one in made)
    assert await store.load("w") == {"first": 0} | {f"s{n}": n for n in range(30)}
    await client.aclose()


async def test_a_reply_lost_in_a_shared_batch_is_asked_for_again(proxy: Proxy, namespace: str) -> None:
    client = connect(proxy.url)
    store = RedisCheckpointer(client, namespace)
    holder = await claimed(store, "w")
    await store.record(holder, "first", 0)
    before = proxy.swallowed
    proxy.swallow_next("evalsha")
    made = await together(*[lambda n=n: store.record(holder, f"s{n}", n) for n in range(30)])
    assert proxy.swallowed == before + 1, "the reply was not lost"
    assert all(one.first for one in made)
    assert len(await store.load("w")) == 31
    await client.aclose()


@pytest.mark.parametrize("way", ["straight", "public"])
async def test_a_push_message_is_no_reply(
    server: EmbeddedServer, way: str, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if OLD:
        pytest.skip("this version of redis-py takes a push message for a reply")
    if way == "public":
        monkeypatch.setattr(transport, "hiredis", None)
    client = connect(server.url, protocol=3, max_connections=1)
    key = f"{namespace}:k"
    tracking: Any = client
    await tracking.execute_command("CLIENT", "TRACKING", "ON")
    for turn in range(5):
        commands: list[tuple[Any, ...]] = [("GET", key), ("SET", key, turn), ("GET", key), ("SET", key, turn)]
        commands.append(("ECHO", "last"))
        replies = await exchange(client, commands, [False] * len(commands))
        assert replies[2] == str(turn)
        assert replies[4] == "last"
    await client.aclose()


@pytest.mark.parametrize("way", ["straight", "public"])
async def test_a_reply_that_does_not_come_in_time_is_a_timeout_and_never_anothers(
    server: EmbeddedServer, way: str, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if way == "public":
        monkeypatch.setattr(transport, "hiredis", None)
    options = connect(server.url).connection_pool.connection_kwargs
    never_again = type(options["retry"])(NoBackoff(), 0)
    client = connect(server.url, socket_timeout=0.2, max_connections=1, retry=never_again)
    waits: list[tuple[Any, ...]] = [("ECHO", "first"), ("BLPOP", f"{namespace}:none", 1), ("ECHO", "second")]
    with pytest.raises(RedisTimeoutError):
        await exchange(client, waits, [False] * 3)
    assert await exchange(client, [("ECHO", "third")], [False]) == ["third"]
    await client.aclose()


async def test_a_connection_of_a_class_of_its_own_reads_replies_its_own_way(server: EmbeddedServer) -> None:
    base: Any = connect(server.url).connection_pool.connection_class
    seen: list[object] = []

    class Own(base):  # type: ignore[misc]
        async def read_response(self, *args: Any, **options: Any) -> Any:
            reply = await super().read_response(*args, **options)
            seen.append(reply)
            return reply

    client = connect(server.url, connection_class=Own)
    assert await exchange(client, [("ECHO", "a"), ("ECHO", "b")], [False, False]) == ["a", "b"]
    assert seen[-2:] == ["a", "b"]
    await client.aclose()


async def test_a_connection_is_looked_after_as_the_client_was_told(server: EmbeddedServer) -> None:
    client = connect(server.url, health_check_interval=1, max_connections=1)
    assert await exchange(client, [("ECHO", "a")], [False]) == ["a"]
    before = await pings(client)
    pool: Any = client.connection_pool
    connection: Any = await pool.get_connection(*transport._NAME)
    connection.next_health_check = 0.001
    await pool.release(connection)
    assert await exchange(client, [("ECHO", "a")], [False]) == ["a"]
    assert await pings(client) > before
    await client.aclose()


async def pings(client: Redis) -> int:
    known: Any = await client.info("commandstats")
    return int(known.get("cmdstat_ping", {}).get("calls", 0))


async def test_who_asks_for_the_clients_own_pipelines_gets_them(
    server: EmbeddedServer, namespace: str
) -> None:
    class Watched(Redis):
        """A class that may do something with each command."""

    client = connect(server.url)
    assert is_lean(client)
    assert not is_lean(Watched.from_url(server.url, decode_responses=True))
    assert not is_lean(connect(server.url, encoding="latin-1"))
    RedisCheckpointer(client, namespace, transport="plain")
    assert not is_lean(client)
    RedisCheckpointer(client, namespace)
    assert not is_lean(client)
    with pytest.raises(ValueError, match="another store on this client asks for transport='plain'"):
        RedisCheckpointer(client, namespace, transport="lean")
    with pytest.raises(ValueError, match="'lean' or 'plain'"):
        RedisCheckpointer(client, namespace, transport="fast")  # type: ignore[arg-type]


@pytest.mark.parametrize("packs", ["hiredis", "python"])
def test_commands_are_packed_as_the_client_packs_them(
    packs: str, server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    if packs == "python":
        monkeypatch.setattr(transport, "_pack", None)

    class Number(int):
        pass

    words = ("CONFIG GET", "é", b"\xff", 1, -(2**70), 1.5, 1e22, "", b"")
    pool: Any = connect(server.url).connection_pool
    own: Any = pool.make_connection()
    assert packed(words) == b"".join(own.pack_command(*words))
    assert packed(("A", Number(3))) == b"*2\r\n$1\r\nA\r\n$1\r\n3\r\n"
    for wrong in (None, True, object(), ["a"]):
        with pytest.raises(DataError):
            packed(("A", wrong))  # type: ignore[arg-type]
