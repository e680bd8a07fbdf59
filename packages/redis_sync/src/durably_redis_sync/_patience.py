"""Which clients there are, and how long a call of theirs is sent again. Written by hand."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any, TypeGuard, TypeVar

import redis.exceptions
from redis import Redis
from redis.exceptions import AuthenticationError, MasterDownError, NoScriptError, ReadOnlyError, ResponseError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from durably_redis_sync._cluster import UNSETTLED, RedisCluster, is_torn, prepared
from durably_redis_sync.settings import asks_sentinels

__all__ = ["AnyRedis", "NoScriptError", "is_cluster", "is_passing", "patiently"]

T = TypeVar("T")

AnyRedis = Redis | RedisCluster
"""The clients that the stores take."""


_QUEUE = 60.0
"""How long a call waits for a connection of a full pool, in seconds."""


_PATIENCE = 3.0
"""How long a call goes on being sent again over lost connections, in seconds: every call here may be repeated."""


_FAILOVER = 30.0
"""The same where another server takes over: as long as a failover takes with the usual settings."""


_CHANGING = (
    "READONLY You can't write against a read only replica",
    "MASTERDOWN Link with MASTER is down",
    "NOREPLICAS Not enough good replicas to write",
)
"""What a server says while another takes its place. Redis 6.2 says it in the middle of a script's own error."""


_FULL: type[Exception] | None = getattr(redis.exceptions, "MaxConnectionsError", None)


def _is_full(error: Exception) -> bool:
    if _FULL is not None and isinstance(error, _FULL):
        return True
    return "Too many connections" in str(error)


def is_passing(client: AnyRedis, error: Exception) -> bool:
    """Whether a refusal or a lost connection is of the kind that a while ends."""
    if isinstance(error, AttributeError):
        return is_torn(error)
    if is_cluster(client) and isinstance(error, UNSETTLED):
        return True
    if isinstance(error, ResponseError):
        changing = isinstance(error, (ReadOnlyError, MasterDownError))
        return changing or any(text in str(error) for text in _CHANGING)
    return not isinstance(error, AuthenticationError)


def _forget_server(client: AnyRedis) -> None:
    """Close the idle connections: the next ones go to whoever is the master by then."""
    pool: Any = getattr(client, "connection_pool", None)
    if pool is None:
        return
    with contextlib.suppress(RedisConnectionError, RedisTimeoutError, OSError):
        pool.disconnect(inuse_connections=False)


def patiently(client: AnyRedis, call: Callable[[], T]) -> T:
    """`call()` of `client`, sent again for a while when its connection is lost or its server is no master (any more),
    whatever the client's own settings are.

    Where the client's pool has no connection free, it waits its turn.
    """
    began = time.monotonic()
    pause = 0.001
    lasting = _FAILOVER if is_cluster(client) or asks_sentinels(client) else _PATIENCE
    lost: tuple[type[Exception], ...] = (RedisConnectionError, RedisTimeoutError, ResponseError)
    if is_cluster(client):
        lost += (*UNSETTLED, AttributeError)
    while True:
        try:
            if is_cluster(client):
                prepared(client)
            return call()
        except lost as error:
            if not is_passing(client, error):
                raise
            full = isinstance(error, RedisConnectionError) and _is_full(error)
            if time.monotonic() - began > (_QUEUE if full else lasting):
                raise
            if isinstance(error, ResponseError):
                _forget_server(client)
        time.sleep(pause)
        pause = min(pause * 2, 0.02 if full else 0.5)


def is_cluster(client: AnyRedis) -> TypeGuard[RedisCluster]:
    """Whether `client` speaks to a cluster, where each key has its node."""
    kind = type(client)
    known = _clusters.get(kind)
    if known is None:
        known = _clusters[kind] = issubclass(kind, RedisCluster)
    return known


_clusters: dict[type, bool] = {}
"""Asked once per class: redis-py's classes are protocols, which makes the question a slow one."""
