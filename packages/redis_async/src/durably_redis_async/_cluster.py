"""How this flavour speaks to a Redis Cluster: to the node that owns a key, on one connection, in order. By hand.

redis-py's own cluster pipelines run what was redirected after everything else; here the calls of one caller build on
each other. So a pipeline goes to one node, and what is redirected is sent again by the caller, whole.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

from redis.asyncio import RedisCluster
from redis.asyncio.cluster import PipelineCommand
from redis.exceptions import (
    AskError,
    ClusterError,
    RedisClusterException,
    RedisError,
    SlotNotCoveredError,
    TryAgainError,
)
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

__all__ = [
    "ELSEWHERE",
    "UNSETTLED",
    "RedisCluster",
    "is_torn",
    "node_of",
    "on_one_node",
    "prepared",
    "relearn",
]

ELSEWHERE: tuple[type[Exception], ...] = (AskError, TryAgainError)
"""A node's replies which say that a key is, or is about to be, at another (`MovedError` is an `AskError`)."""

UNSETTLED: tuple[type[Exception], ...] = (*ELSEWHERE, ClusterError, SlotNotCoveredError)
"""What a cluster says while it settles: worth another try. (`ClusterDownError` is a `ClusterError`.)"""


def is_torn(error: Exception) -> bool:
    """Whether redis-py lost a connection, or a node, that a command was just using: some of its releases then fail
    like this."""
    return isinstance(error, AttributeError) and error.obj is None


async def prepared(client: RedisCluster) -> None:
    """Let the client learn the cluster's layout, once. Commands that come before and side by side break each other.

    Raises a lost connection when no node can be reached.
    """
    try:
        await client.initialize()
    except RedisClusterException as error:
        raise RedisConnectionError(str(error)) from error


async def node_of(client: RedisCluster, key: str) -> Any:
    """The node that owns `key`, as far as the client knows. Raises a lost connection when no node can be reached."""
    await prepared(client)
    return client.get_node_from_key(key)


async def on_one_node(
    client: RedisCluster, key: str, commands: Sequence[tuple[tuple[Any, ...], dict[str, Any]]]
) -> list[Any]:
    """The replies of commands, sent at once to the node that owns `key`; errors of the server among them.

    Raises what the connection raises.
    """
    node = await node_of(client, key)
    queued = [PipelineCommand(n, *words, **options) for n, (words, options) in enumerate(commands)]
    await node.execute_pipeline(queued)
    replies = [one.result for one in queued]
    for reply in replies:
        if isinstance(reply, (RedisConnectionError, RedisTimeoutError, UnicodeDecodeError, AttributeError)):
            raise reply
    return replies


async def relearn(client: RedisCluster, key: str) -> None:
    """Ask for `key`, so that the client finds out where it is now. What goes wrong shows when it matters."""
    with contextlib.suppress(RedisError, RedisClusterException, OSError):
        await client.execute_command("EXISTS", key)
