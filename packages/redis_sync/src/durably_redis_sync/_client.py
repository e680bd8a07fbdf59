"""The redis-py classes of this flavour, and a script that survives what servers do to scripts. Written by hand."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import redis.exceptions
from redis import Redis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoScriptError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

__all__ = [
    "Call",
    "Redis",
    "RedisConnectionError",
    "RedisTimeoutError",
    "ResponseError",
    "Script",
    "check_client",
    "patiently",
    "register",
    "send_together",
    "socket_timeout",
]

T = TypeVar("T")

_QUEUE = 60.0
"""How long a call waits for a connection of a full pool, in seconds."""

_FULL: type[Exception] | None = getattr(redis.exceptions, "MaxConnectionsError", None)


def _is_full(error: Exception) -> bool:
    if _FULL is not None:
        return isinstance(error, _FULL)
    return isinstance(error, RedisConnectionError) and "Too many connections" in str(error)


def patiently(call: Callable[[], T]) -> T:
    """`call()`, waiting its turn where the client's pool has no connection free."""
    until = time.monotonic() + _QUEUE
    pause = 0.001
    while True:
        try:
            return call()
        except RedisConnectionError as error:
            if not _is_full(error) or time.monotonic() > until:
                raise
        time.sleep(pause)
        pause = min(pause * 2, 0.02)


class Script:
    """One Lua script on one client: sent by its digest, and whole where the server does not know it (any more)."""

    def __init__(self, client: Redis, source: str) -> None:
        self.client = client
        self.source = source
        self.sha = hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest()

    def __call__(self, keys: Sequence[str] = (), args: Sequence[str | int | float | bytes] = ()) -> Any:
        """Run it. Raises what the server or the connection raises."""

        def by_digest() -> Any:
            client: Any = self.client
            try:
                return client.evalsha(self.sha, len(keys), *keys, *args)
            except NoScriptError:
                return client.eval(self.source, len(keys), *keys, *args)

        return patiently(by_digest)


@dataclass(frozen=True)
class Call:
    """One call of a script, with what makes its answer of the reply."""

    script: Script
    keys: Sequence[str]
    args: Sequence[str | int | float | bytes]
    answer: Callable[[Any], Any]


def send_together(calls: Sequence[Call]) -> list[object]:
    """The answers of all calls, in one round trip per client; an error stands in the place of its answer.

    Raises what the connection raises.
    """
    answers: list[object] = [None] * len(calls)
    clients = {id(one.script.client): one.script.client for one in calls}
    for number, client in clients.items():
        mine = [n for n, one in enumerate(calls) if id(one.script.client) == number]

        def send(client: Redis = client, mine: list[int] = mine) -> list[Any]:
            with client.pipeline(transaction=False) as pipe:
                sending: Any = pipe
                for n in mine:
                    sending.evalsha(calls[n].script.sha, len(calls[n].keys), *calls[n].keys, *calls[n].args)
                replies: list[Any] = pipe.execute(raise_on_error=False)
                return replies

        for n, reply in zip(mine, patiently(send), strict=True):
            one = calls[n]
            if isinstance(reply, NoScriptError):
                reply = one.script(one.keys, one.args)
            answers[n] = reply if isinstance(reply, Exception) else one.answer(reply)
    return answers


def register(client: Redis, source: str) -> Script:
    """`source` as a script of `client`. Sends nothing."""
    return Script(client, source)


def _options(client: Redis) -> dict[str, Any]:
    options: dict[str, Any] = client.connection_pool.connection_kwargs
    return options


def check_client(client: Redis) -> Redis:
    """Return `client`, or raise: `TypeError` for a client of another kind, `ValueError` for one that reads bytes."""
    if not isinstance(client, Redis):
        raise TypeError(
            f"a redis.Redis client is needed here, not {type(client).__module__}.{type(client).__name__}"
        )
    if not _options(client).get("decode_responses"):
        raise ValueError("build the client with decode_responses=True: these stores read text")
    return client


def socket_timeout(client: Redis) -> float | None:
    """How long the client waits for a reply, in seconds; `None` for as long as it takes."""
    value = _options(client).get("socket_timeout")
    if value is None:
        return None
    return float(value)
