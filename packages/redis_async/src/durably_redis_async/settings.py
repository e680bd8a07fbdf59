"""What a client's settings tell of the server it speaks to. Nothing is asked of the server."""

from __future__ import annotations

from typing import Any


def options_of(client: Any) -> dict[str, Any]:
    """What the client's connections are made with."""
    pool = getattr(client, "connection_pool", None)  # a cluster's client has none, but one for each node
    options: dict[str, Any] = client.get_connection_kwargs() if pool is None else pool.connection_kwargs
    return options


def asks_sentinels(client: Any) -> bool:
    """Whether sentinels name the client's server."""
    return hasattr(getattr(client, "connection_pool", None), "sentinel_manager")


def same_database(one: Any, other: Any) -> bool:
    """Whether two clients speak to one database of one server, as far as their settings tell.

    Where sentinels name the server: whether both ask for one name, and at least one sentinel in common.
    """
    if not hasattr(one, "connection_pool") or not hasattr(other, "connection_pool"):
        return False  # a cluster is several servers
    return one is other or (_place(one) == _place(other) and _same_master(one, other))


def socket_timeout(client: Any) -> float | None:
    """How long the client waits for a reply, in seconds; `None` for as long as it takes."""
    value = options_of(client).get("socket_timeout")
    return None if value is None else float(value)


def _place(client: Any) -> tuple[Any, ...]:
    options = options_of(client)
    return (*(options.get(name) for name in ("host", "port", "path")), str(options.get("db") or 0))


def _same_master(one: Any, other: Any) -> bool:
    asked = [_sentinels(client) for client in (one, other)]
    if not asked[0] and not asked[1]:
        return True
    named = [client.connection_pool for client in (one, other)]
    return bool(asked[0] & asked[1]) and bool(named[0].service_name == named[1].service_name)


def _sentinels(client: Any) -> set[tuple[Any, Any]]:
    if not asks_sentinels(client):
        return set()
    options = [options_of(sentinel) for sentinel in client.connection_pool.sentinel_manager.sentinels]
    return {(one.get("host"), one.get("port")) for one in options}
