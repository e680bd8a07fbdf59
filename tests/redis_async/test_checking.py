"""A look at real servers: what they say is understood, on every version, and nothing is written."""

from __future__ import annotations

from typing import Any

import pytest
from durably.embedded import EmbeddedServer
from durably_redis_async import Finding, check_server
from redis.exceptions import ConnectionError as RedisConnectionError
from replicated import Replicated, said
from support_async import Redis
from support_async import client as connect


def words(found: list[Finding]) -> str:
    return "\n".join(map(str, found))


async def test_a_server_that_keeps_nothing_is_in_danger(redis: Redis) -> None:
    found = await check_server(redis)
    assert found[0].severity == "danger" and "nothing is kept on disk" in found[0].what
    assert "there is no replica" in words(found)
    assert "may not be read" not in words(found)


async def test_a_good_pair_has_little_to_say(replicated: Replicated) -> None:
    client = connect(replicated.url)
    found = await check_server(client)
    assert not [one for one in found if one.severity == "danger"], words(found)
    assert "min-replicas-to-write 0" in words(found) and "no replica" not in words(found)
    replica = connect(replicated.replica.url)
    assert "is a replica" in (await check_server(replica))[0].what
    await replica.aclose()
    await client.aclose()


async def test_what_is_set_is_found(own_server: EmbeddedServer) -> None:
    for name, value in (
        ("maxmemory-policy", "allkeys-lru"),
        ("maxmemory", "1gb"),
        ("appendfsync", "no"),
        ("save", "3600 1"),
        ("stop-writes-on-bgsave-error", "no"),
    ):
        said(own_server, "CONFIG", "SET", name, value)
    for options in ({}, {"protocol": 3}):
        client = connect(own_server.url, **options)
        text = words(await check_server(client))
        for part in ("allkeys-lru", "appendfsync no", "changes nothing", "no replica"):
            assert part in text
        await client.aclose()
    reads_bytes: Any = Redis.from_url(own_server.url)
    assert "allkeys-lru" in words(await check_server(reads_bytes))
    await reads_bytes.aclose()


async def test_where_settings_may_not_be_read_it_says_so(own_server: EmbeddedServer) -> None:
    said(own_server, "ACL", "SETUSER", "limited", "on", ">secret", "~*", "+@all", "-config")
    said(own_server, "ACL", "SETUSER", "blind", "on", ">secret", "~*", "+@all", "-info", "-config")
    limited = connect(own_server.url, username="limited", password="secret")
    assert "CONFIG GET is refused" in words(await check_server(limited))
    await limited.aclose()
    blind = connect(own_server.url, username="blind", password="secret")
    found = await check_server(blind)
    assert len(found) == 1 and "INFO is refused" in found[0].what
    await blind.aclose()


async def test_no_server_is_an_error_and_no_client_too(own_server: EmbeddedServer) -> None:
    client = connect(own_server.url, retry=None)
    own_server.kill()
    with pytest.raises(RedisConnectionError):
        await check_server(client)
    await client.aclose()
    with pytest.raises(TypeError):
        await check_server(object())  # type: ignore[arg-type]
