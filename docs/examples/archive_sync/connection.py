"""The client, the store and the queue of the archive. One per flavour."""

from __future__ import annotations

from datetime import timedelta
from urllib.parse import urlsplit

from durably_redis_sync import (
    LuaEffect,
    PartitionedScheduler,
    RedisCheckpointer,
    RedisSetScheduler,
    RedisStreamScheduler,
    Scheduler,
    SplitDurable,
)
from redis import Redis, RedisCluster
from redis.backoff import ExponentialBackoff
from redis.cluster import ClusterNode
from redis.retry import Retry

LEASE = timedelta(seconds=2)
PARTITIONS = 4
SCHEDULERS = ("stream", "set", "partitioned")
TOPOLOGIES = ("single", "cluster")


def connect(urls: str, topology: str) -> Redis | RedisCluster:
    """A client of one server, which sends a command again while that restarts; or of a cluster, of which `urls` names
    some nodes, with commas between them: any of them may be down."""
    if topology == "cluster":
        places = [urlsplit(url) for url in urls.split(",")]
        nodes = [ClusterNode(one.hostname or "", one.port or 6379) for one in places]  # type: ignore[no-untyped-call]
        return RedisCluster(startup_nodes=nodes, decode_responses=True)
    client: Redis = Redis.from_url(
        urls, decode_responses=True, retry=Retry(ExponentialBackoff(cap=0.5, base=0.02), 40)
    )
    return client


def build(redis: Redis | RedisCluster, scheduler: str, namespace: str) -> SplitDurable[LuaEffect]:
    """The store and the queue, one of `SCHEDULERS`."""
    queue: Scheduler
    if scheduler == "stream":
        queue = RedisStreamScheduler(redis, namespace, lease=LEASE)
    elif scheduler == "set":
        queue = RedisSetScheduler(redis, namespace, lease=LEASE, poll=timedelta(milliseconds=20))
    else:
        queue = PartitionedScheduler.of_streams(redis, namespace, PARTITIONS, lease=LEASE)
    return SplitDurable(RedisCheckpointer(redis, namespace), queue)
