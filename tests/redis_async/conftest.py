"""Clients, and the stores and queues that the shared suites run over."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from durably.embedded import EmbeddedServer
from durably_redis_async import (
    MemoryCheckpointer,
    MemoryScheduler,
    RedisCheckpointer,
    RedisSetScheduler,
    RedisStreamScheduler,
)
from support_async import Redis
from support_async import client as connect


@pytest.fixture
async def redis(server: EmbeddedServer) -> AsyncIterator[Redis]:
    """A client of the session's server."""
    client = connect(server.url)
    yield client
    await client.aclose()


@pytest.fixture(params=["memory", "redis"])
def checkpointer(request: pytest.FixtureRequest, redis: Redis, namespace: str) -> Any:
    """Each checkpointer in turn."""
    return MemoryCheckpointer() if request.param == "memory" else RedisCheckpointer(redis, namespace)


@pytest.fixture(params=["memory", "stream", "set"])
async def scheduler(request: pytest.FixtureRequest, redis: Redis, namespace: str) -> Any:
    """Each scheduler in turn, prepared."""
    made: Any
    if request.param == "memory":
        made = MemoryScheduler()
    elif request.param == "stream":
        made = RedisStreamScheduler(redis, namespace)
    else:
        made = RedisSetScheduler(redis, namespace)
    await made.prepare()
    return made
