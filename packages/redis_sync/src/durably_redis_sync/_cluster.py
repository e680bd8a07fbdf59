"""How this flavour speaks to a Redis Cluster: to the node that owns a key, on one connection, in order. By hand.

redis-py's own cluster pipelines run what was redirected after everything else; here the calls of one caller build on
each other. So a pipeline goes to one node, and what is redirected is sent again by the caller, whole.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

from redis import RedisCluster
from redis.exceptions import (
    AskError,
    ClusterError,
    RedisClusterException,
    RedisError,
    SlotNotCoveredError,
    TryAgainError,
)
from redis.exceptions import ConnectionError as RedisConnectionError

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


def prepared(client: RedisCluster) -> None:
    """Nothing to do: this flavour's client learns the cluster's layout when it is made."""


def node_of(client: RedisCluster, key: str) -> Any:
    """The node that owns `key`, as far as the client knows. Raises a lost connection when no node can be reached."""
    asking: Any = client
    node = asking.get_node_from_key(key)
    if node is None:
        raise RedisConnectionError("the cluster names no node")
    return node


def on_one_node(
    client: RedisCluster, key: str, commands: Sequence[tuple[tuple[Any, ...], dict[str, Any]]]
) -> list[Any]:
    """The replies of commands, sent at once to the node that owns `key`; errors of the server among them.

    Raises what the connection raises.
    """
    asking: Any = client
    with asking.get_redis_connection(node_of(client, key)).pipeline(transaction=False) as pipe:
        for words, options in commands:
            pipe.execute_command(*words, **options)
        replies: list[Any] = pipe.execute(raise_on_error=False)
        return replies


def relearn(client: RedisCluster, key: str) -> None:
    """Ask for `key`, so that the client finds out where it is now. What goes wrong shows when it matters."""
    asking: Any = client
    with contextlib.suppress(RedisError, RedisClusterException, OSError):
        asking.execute_command("EXISTS", key)
