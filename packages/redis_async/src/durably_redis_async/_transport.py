"""Several commands and their replies over one connection of redis-py's pool, without the cost of its pipelines. By hand.

The commands are packed into one write. The replies are read by redis-py's own parser: straight from its hiredis reader
where that is in use and looks as it is known to (`_fast`), else by the connection's public method, one by one. A
connection whose replies were not all read is closed, never given back with something left on it.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Sequence
from typing import Any, Literal
from weakref import WeakKeyDictionary

from redis.asyncio import Redis
from redis.asyncio.connection import Connection, ConnectionPool
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import DataError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

try:
    import hiredis
    from redis._parsers.hiredis import NOT_ENOUGH_DATA, _AsyncHiredisParser
except ImportError:
    hiredis = None  # type: ignore[assignment]

__all__ = ["Transport", "Word", "exchange", "is_lean", "transport_of", "use_transport"]

Word = str | int | float | bytes
"""What a command is made of."""

Transport = Literal["lean", "plain"]
"""How commands that gather are sent: straight over a connection of the pool, or by the client's own pipelines."""

_READ = 65536

_asked = inspect.signature(ConnectionPool.get_connection).parameters.get("command_name")
_NAME: tuple[str, ...] = ("_",) if _asked is not None and _asked.default is inspect.Parameter.empty else ()
"""redis-py before 5.3 wants a command's name with the request for a connection; later ones warn about it."""

_PUSH: Any = getattr(hiredis, "PushNotification", None)
_PLAIN = frozenset({str, bytes, int, type(None), list, dict})
"""What most replies are: neither an error, a push message, nor the lack of one."""

_pack: Any = getattr(hiredis, "pack_command", None)

_said: WeakKeyDictionary[Any, Transport] = WeakKeyDictionary()


def use_transport(client: Any, transport: Transport) -> None:
    """Send what goes over `client` in this way from now on. Raises `ValueError` for a way that there is not, and where
    the client was told another before."""
    if transport not in ("lean", "plain"):
        raise ValueError(f"transport must be 'lean' or 'plain', not {transport!r}")
    if _said.get(client, transport) != transport:
        raise ValueError(
            f"another store on this client asks for transport={_said[client]!r}, not {transport!r}"
        )
    _said[client] = transport


def transport_of(client: Any) -> Transport:
    """The way in which what goes over `client` is sent."""
    return _said.get(client, "lean")


def is_lean(client: Any) -> bool:
    """Whether `exchange` may be used for `client`: not where a class of its own may do something with each command, nor
    where it keeps one connection to itself, nor for text in another encoding than UTF-8."""
    if type(client) is not Redis or client.connection is not None or transport_of(client) != "lean":
        return False
    return client.connection_pool.connection_kwargs.get("encoding", "utf-8") in ("utf-8", "utf8", "UTF-8")


def packed(words: tuple[Word, ...]) -> bytes:
    """A command as it is sent. Raises `DataError` for what is neither text, a number nor bytes."""
    name = words[0]
    if isinstance(name, str) and " " in name:  # a command of two words is named as one
        words = (*name.split(), *words[1:])
    if _pack is not None:
        try:
            given: bytes = _pack(words)
        except TypeError:
            pass  # a subclass of `int`, which it does not know
        else:
            return given
    made = [b"*%d\r\n" % len(words)]
    for word in words:
        if isinstance(word, str):
            one = word.encode()
        elif isinstance(word, bytes):
            one = word
        elif isinstance(word, int) and not isinstance(word, bool):
            one = b"%d" % word
        elif isinstance(word, float):
            one = repr(word).encode()
        else:
            raise DataError(f"{type(word).__name__} is neither text, a number nor bytes: {word!r}")
        made.append(b"$%d\r\n%b\r\n" % (len(one), one))
    return b"".join(made)


async def exchange(client: Any, commands: Sequence[tuple[Word, ...]], raws: Sequence[bool]) -> list[Any]:
    """The replies of commands, sent together over one connection; errors of the server among them.

    `raws`: which replies are read as bytes, whatever the client decodes.
    Raises what the connection raises, and `UnicodeDecodeError` for a reply that is no text.
    """
    sent = b"".join([packed(words) for words in commands])
    pool = client.connection_pool
    connection = await pool.get_connection(*_NAME)

    async def attempt() -> list[Any]:
        return await _attempt(connection, sent, raws)

    async def failed(_: Exception) -> None:
        await connection.disconnect()

    try:
        replies: list[Any] = await connection.retry.call_with_retry(attempt, failed)
    except BaseException:
        await asyncio.shield(_dropped(pool, connection))
        raise
    await pool.release(connection)
    return await _called_back(client, commands, replies)


async def _dropped(pool: Any, connection: Any) -> None:
    try:
        await connection.disconnect(nowait=True)
    finally:
        await pool.release(connection)


async def _called_back(client: Any, commands: Sequence[tuple[Word, ...]], replies: list[Any]) -> list[Any]:
    """What the client makes of replies by the name of their command, as it does itself."""
    names = [words[0] for words in commands]
    known: dict[Word, Callable[[Any], Any] | None] = {
        name: client.response_callbacks.get(name) for name in set(names)
    }
    for n, name in enumerate(names):
        made = known[name]
        if made is not None and not isinstance(replies[n], Exception):
            replies[n] = made(replies[n])
            if hasattr(replies[n], "__await__"):
                replies[n] = await replies[n]
    return replies


async def _attempt(connection: Any, sent: bytes, raws: Sequence[bool]) -> list[Any]:
    if not connection.is_connected:
        await connection.connect()
    parser = getattr(connection, "_parser", None)
    if not _fast(connection, parser):
        await connection.send_packed_command(sent)
        return [await _public(connection, raw) for raw in raws]
    if connection.health_check_interval:
        await connection.check_health()
    try:
        patience = connection.socket_timeout
        if patience is None:
            return await _read(connection, parser, sent, raws, None)
        async with asyncio.timeout(patience) as limit:
            return await _read(connection, parser, sent, raws, limit)
    except TimeoutError:
        raise RedisTimeoutError("Timeout while waiting for replies") from None
    except OSError as error:
        raise RedisConnectionError(f"Error while waiting for replies: {error.args}") from error


async def _public(connection: Any, raw: bool) -> Any:
    try:
        return await connection.read_response(disable_decoding=raw)
    except ResponseError as error:
        return error


def _fast(connection: Any, parser: Any) -> bool:
    """Whether the parts of redis-py that `_read` uses are there, and no connection class reads replies its own way."""
    reader = getattr(parser, "_reader", None)
    return (
        hiredis is not None
        and type(parser) is _AsyncHiredisParser
        and type(connection).read_response is Connection.read_response
        and getattr(connection, "_writer", None) is not None
        and getattr(parser, "_stream", None) is not None
        and reader is not None
        and not reader.has_data()
        and reader.gets() is NOT_ENOUGH_DATA  # older versions of redis-py have it say so otherwise
    )


async def _read(
    connection: Any, parser: Any, sent: bytes, raws: Sequence[bool], limit: asyncio.Timeout | None
) -> list[Any]:
    writer, reader, stream = connection._writer, parser._reader, parser._stream
    writer.write(sent)
    await writer.drain()
    replies = []
    came = False
    for raw in raws:
        while True:
            reply = reader.gets(False) if raw else reader.gets()
            if type(reply) in _PLAIN:
                break
            if reply is NOT_ENOUGH_DATA:
                if limit is not None and came:  # what keeps coming is not late
                    limit.reschedule(asyncio.get_running_loop().time() + connection.socket_timeout)
                data = await stream.read(_READ)
                if not data:
                    raise RedisConnectionError("Connection closed by server.")
                reader.feed(data)
                came = True
            elif _PUSH is not None and type(reply) is _PUSH:
                await parser.handle_push_response(reply)
            elif isinstance(reply, RedisConnectionError):
                raise reply
            else:
                break
        replies.append(reply)
    if connection.health_check_interval:
        interval = connection.health_check_interval
        connection.next_health_check = asyncio.get_running_loop().time() + interval
    return replies
