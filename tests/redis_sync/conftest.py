# Generated from tests/redis_async/conftest.py by twin.py. Edit that file.
"""Clients, and the stores and queues that the shared suites run over."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from durably.embedded import EmbeddedServer
from durably_redis_sync import (
    MemoryCheckpointer,
    MemoryScheduler,
    RedisCheckpointer,
    RedisSetScheduler,
    RedisStreamScheduler,
)
from support_sync import Redis
from support_sync import client as connect


@pytest.fixture
def redis(server: EmbeddedServer) -> Iterator[Redis]:
    """A client of the session's server."""
    client = connect(server.url)
    yield client
    client.close()


@pytest.fixture(params=["memory", "redis"])
def checkpointer(request: pytest.FixtureRequest, redis: Redis, namespace: str) -> Any:
    """Each checkpointer in turn."""
    return MemoryCheckpointer() if request.param == "memory" else RedisCheckpointer(redis, namespace)


@pytest.fixture(params=["memory", "stream", "set"])
def scheduler(request: pytest.FixtureRequest, redis: Redis, namespace: str) -> Any:
    """Each scheduler in turn, prepared."""
    made: Any
    if request.param == "memory":
        made = MemoryScheduler()
    elif request.param == "stream":
        made = RedisStreamScheduler(redis, namespace)
    else:
        made = RedisSetScheduler(redis, namespace)
    made.prepare()
    return made
