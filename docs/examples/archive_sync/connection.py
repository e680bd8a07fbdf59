"""The client, the store and the queue of the archive. One per flavour."""

from __future__ import annotations

from datetime import timedelta

from durably_redis_sync import (
    LuaEffect,
    RedisCheckpointer,
    RedisSetScheduler,
    RedisStreamScheduler,
    SplitDurable,
)
from redis import Redis
from redis.backoff import ExponentialBackoff
from redis.retry import Retry

LEASE = timedelta(seconds=2)


def connect(url: str) -> Redis:
    """A client that sends a command again while the server restarts."""
    client: Redis = Redis.from_url(
        url, decode_responses=True, retry=Retry(ExponentialBackoff(cap=0.5, base=0.02), 40)
    )
    return client


def build(redis: Redis, scheduler: str, namespace: str) -> SplitDurable[LuaEffect]:
    """The store and the queue (`stream` or `set`)."""
    store = RedisCheckpointer(redis, namespace)
    if scheduler == "stream":
        return SplitDurable(store, RedisStreamScheduler(redis, namespace, lease=LEASE))
    return SplitDurable(
        store, RedisSetScheduler(redis, namespace, lease=LEASE, poll=timedelta(milliseconds=20))
    )
