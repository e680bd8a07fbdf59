"""The redis-py classes of this flavour, and a script that survives what servers do to scripts. Written by hand."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import redis.exceptions
from durably.lua import in_one
from redis.asyncio import Redis
from redis.client import NEVER_DECODE
from redis.exceptions import AuthenticationError, MasterDownError, NoScriptError, ReadOnlyError, ResponseError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from durably_redis_async._concurrency import Gathering
from durably_redis_async.settings import asks_sentinels, options_of, same_database, socket_timeout

__all__ = [
    "Call",
    "Redis",
    "RedisConnectionError",
    "RedisTimeoutError",
    "ResponseError",
    "Script",
    "check_client",
    "in_one_script",
    "patiently",
    "register",
    "same_database",
    "send",
    "send_together",
    "socket_timeout",
]

T = TypeVar("T")

_QUEUE = 60.0
"""How long a call waits for a connection of a full pool, in seconds."""

_PATIENCE = 3.0
"""How long a call goes on being sent again over lost connections, in seconds: every call here may be repeated."""

_FAILOVER = 30.0
"""The same where the client asks sentinels for its master: a failover with their usual settings takes that long."""

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


def _passes(error: Exception) -> bool:
    """Whether a refusal or a lost connection is of the kind that a while ends."""
    if isinstance(error, ResponseError):
        changing = isinstance(error, (ReadOnlyError, MasterDownError))
        return changing or any(text in str(error) for text in _CHANGING)
    return not isinstance(error, AuthenticationError)


async def _forget_server(client: Redis) -> None:
    """Close the idle connections: the next ones go to whoever is the master by then."""
    with contextlib.suppress(RedisConnectionError, RedisTimeoutError, OSError):
        await client.connection_pool.disconnect(inuse_connections=False)


async def patiently(call: Callable[[], Awaitable[T]], client: Redis) -> T:
    """`call()` of `client`, sent again for a while when its connection is lost or its server is no master (any more),
    whatever the client's own settings are.

    Where the client's pool has no connection free, it waits its turn. A cancellation that the client takes for a lost
    connection is a cancellation.
    """
    patience = _FAILOVER if asks_sentinels(client) else _PATIENCE
    began = time.monotonic()
    pause = 0.001
    task = asyncio.current_task()
    before = 0 if task is None else task.cancelling()
    while True:
        try:
            result = await call()
            if task is not None and task.cancelling() > before:
                raise asyncio.CancelledError
            return result
        except (RedisConnectionError, RedisTimeoutError, ResponseError) as error:
            if isinstance(error, ResponseError) and not _passes(error):
                raise
            if task is not None and task.cancelling() > before:
                raise asyncio.CancelledError from error
            full = isinstance(error, RedisConnectionError) and _is_full(error)
            if not _passes(error) or time.monotonic() - began > (_QUEUE if full else patience):
                raise
            if isinstance(error, ResponseError):
                await _forget_server(client)
        await asyncio.sleep(pause)
        pause = min(pause * 2, 0.02 if full else 0.5)


class Script:
    """One Lua script on one client: sent by its digest, and whole where the server does not know it (any more)."""

    def __init__(self, client: Redis, source: str) -> None:
        self.client = client
        self.source = source
        self.sha = hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest()

    async def __call__(self, keys: Sequence[str] = (), args: Sequence[str | int | float | bytes] = ()) -> Any:
        """Run it. Raises what the server or the connection raises."""

        async def by_digest() -> Any:
            try:
                return await self.client.evalsha(self.sha, len(keys), *keys, *args)
            except NoScriptError:
                return await self.client.eval(self.source, len(keys), *keys, *args)

        return await patiently(by_digest, self.client)

    def call(
        self,
        keys: Sequence[str],
        args: Sequence[str | int | float | bytes],
        answer: Callable[[Any], Any],
        *,
        raw: bool = False,
    ) -> Call:
        """A call of it, to be sent with others."""
        return Call(self.client, ("EVALSHA", self.sha, len(keys), *keys, *args), answer, self.source, raw)


@dataclass(frozen=True)
class Call:
    """One command, with what makes its answer of the reply, and the script's source if it runs one.

    `raw`: the reply is read as bytes, whatever the client decodes.
    """

    client: Redis
    command: tuple[str | int | float | bytes, ...]
    answer: Callable[[Any], Any]
    source: str | None = None
    raw: bool = False


async def send(call: Call) -> Any:
    """The answer of one call. Raises what the server, the connection or the answer raises."""
    reply = (await _gathering(call.client).say([call]))[0]
    if isinstance(reply, Exception):
        raise reply
    return call.answer(reply)


async def send_together(calls: Sequence[Call]) -> list[object]:
    """The answers of all calls, each client's in one round trip and in their order.

    An error of the server, or of making an answer, stands in the answer's place. Raises what the connection raises.
    What turns out to be no text, where text was expected, is read again as bytes.
    """
    answers: list[object] = [None] * len(calls)
    clients = {id(one.client): one.client for one in calls}
    for number, client in clients.items():
        mine = [n for n, one in enumerate(calls) if id(one.client) == number]
        for n, reply in zip(mine, await _gathering(client).say([calls[n] for n in mine]), strict=True):
            try:
                answers[n] = reply if isinstance(reply, Exception) else calls[n].answer(reply)
            except Exception as error:
                answers[n] = error
    return answers


_gatherings: WeakKeyDictionary[Redis, Gathering[list[Call], list[Any]]] = WeakKeyDictionary()


def _gathering(client: Redis) -> Gathering[list[Call], list[Any]]:
    found = _gatherings.get(client)
    if found is None:
        found = _gatherings.setdefault(client, Gathering(_flush))
    return found


async def _flush(groups: list[list[Call]]) -> list[list[Any]]:
    """The replies of groups of calls on one client, in one round trip; errors of the server among them."""

    async def attempt() -> list[list[Any]]:
        calls = [call for group in groups for call in group]
        if len(calls) == 1:
            return [[await _caught(calls[0], calls[0].command)]]
        try:
            replies = iter(await _pipelined(calls))
        except UnicodeDecodeError:
            return [await _one_by_one(group) for group in groups]
        found = [[next(replies) for _ in group] for group in groups]
        for n, group in enumerate(groups):
            if any(isinstance(reply, NoScriptError) for reply in found[n]):
                # all of it again, in order: what comes after a script may build on it
                found[n] = await _one_by_one(group)
        return found

    async def standing() -> list[list[Any]]:
        found = await attempt()
        for reply in (one for group in found for one in group):
            if isinstance(reply, ResponseError) and _passes(reply):
                raise reply
        return found

    return await patiently(standing, groups[0][0].client)


async def _one_by_one(group: list[Call]) -> list[Any]:
    return [await _caught(call, _whole(call)) for call in group]


def in_one_script(first: Call, second: Call) -> Call:
    """Two calls of scripts as one script: both, or where the first is refused, neither. Its answer is a pair."""
    if first.source is None or second.source is None:
        raise ValueError("only calls of scripts can be made one")
    (keys, args), (other_keys, other_args) = _request(first), _request(second)
    script = register(first.client, in_one(first.source, second.source))
    both = [len(keys), len(args), *args, *other_args]

    def answer(reply: Any) -> tuple[Any, Any]:
        return first.answer(reply[0]), second.answer(reply[1])

    return script.call([*keys, *other_keys], both, answer, raw=first.raw)


def _request(call: Call) -> tuple[list[str], list[str | int | float | bytes]]:
    count = int(call.command[2])
    return [str(one) for one in call.command[3 : 3 + count]], list(call.command[3 + count :])


def _whole(call: Call) -> tuple[str | int | float | bytes, ...]:
    return call.command if call.source is None else ("EVAL", call.source, *call.command[2:])


async def _one(call: Call, command: tuple[str | int | float | bytes, ...], raw: bool) -> Any:
    sending: Any = call.client
    return await sending.execute_command(*command, **({NEVER_DECODE: True} if raw else {}))


async def _caught(call: Call, command: tuple[str | int | float | bytes, ...]) -> Any:
    try:
        return await _one(call, command, call.raw)
    except NoScriptError:
        return await _caught(call, _whole(call))
    except ResponseError as error:
        return error
    except UnicodeDecodeError:
        return await _one(call, command, True)


async def _pipelined(calls: Sequence[Call]) -> list[Any]:
    async with calls[0].client.pipeline(transaction=False) as pipe:
        sending: Any = pipe
        for call in calls:
            sending.execute_command(*call.command, **({NEVER_DECODE: True} if call.raw else {}))
        replies: list[Any] = await pipe.execute(raise_on_error=False)
        return replies


def register(client: Redis, source: str) -> Script:
    """`source` as a script of `client`. Sends nothing."""
    return Script(client, source)


def check_client(client: Redis, *, text: bool = True) -> Redis:
    """Return `client`, or raise: `TypeError` for a client of another kind, `ValueError` for one that reads bytes or
    asks sentinels for replicas.

    `text`: whether text is to be read.
    """
    if not isinstance(client, Redis):
        raise TypeError(
            f"a redis.asyncio.Redis client is needed here, not {type(client).__module__}.{type(client).__name__}"
        )
    if text and not options_of(client).get("decode_responses"):
        raise ValueError("build the client with decode_responses=True: these stores read text")
    if not getattr(client.connection_pool, "is_master", True):
        raise ValueError("ask the sentinels for the master (master_for): a replica takes no writes")
    return client
