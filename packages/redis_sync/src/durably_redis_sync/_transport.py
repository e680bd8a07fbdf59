"""Several commands and their replies over one connection of redis-py's pool, without the cost of its pipelines. By hand.

The commands are packed into one write. The replies are read by redis-py's own parser: straight from its hiredis reader
where that is in use and looks as it is known to (`_fast`), else by the connection's public method, one by one. A
connection whose replies were not all read is closed, never given back with something left on it.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Sequence
from typing import Any, Literal
from weakref import WeakKeyDictionary

from redis import Connection, ConnectionPool, Redis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import DataError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

try:
    import hiredis
    from redis._parsers.hiredis import NOT_ENOUGH_DATA, _HiredisParser
except ImportError:
    hiredis = None  # type: ignore[assignment]

__all__ = ["Transport", "Word", "exchange", "is_lean", "transport_of", "use_transport"]

Word = str | int | float | bytes
"""What a command is made of."""

Transport = Literal["lean", "plain"]
"""How commands that gather are sent: straight over a connection of the pool, or by the client's own pipelines."""

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


def exchange(client: Any, commands: Sequence[tuple[Word, ...]], raws: Sequence[bool]) -> list[Any]:
    """The replies of commands, sent together over one connection; errors of the server among them.

    `raws`: which replies are read as bytes, whatever the client decodes.
    Raises what the connection raises, and `UnicodeDecodeError` for a reply that is no text.
    """
    sent = b"".join([packed(words) for words in commands])
    pool = client.connection_pool
    connection = pool.get_connection(*_NAME)

    def attempt() -> list[Any]:
        return _attempt(connection, sent, raws)

    def failed(_: Exception) -> None:
        connection.disconnect()

    try:
        replies: list[Any] = connection.retry.call_with_retry(attempt, failed)
    except BaseException:
        connection.disconnect()
        raise
    finally:
        pool.release(connection)
    return _called_back(client, commands, replies)


def _called_back(client: Any, commands: Sequence[tuple[Word, ...]], replies: list[Any]) -> list[Any]:
    """What the client makes of replies by the name of their command, as it does itself."""
    names = [words[0] for words in commands]
    known: dict[Word, Callable[[Any], Any] | None] = {
        name: client.response_callbacks.get(name) for name in set(names)
    }
    for n, name in enumerate(names):
        made = known[name]
        if made is not None and not isinstance(replies[n], Exception):
            replies[n] = made(replies[n])
    return replies


def _attempt(connection: Any, sent: bytes, raws: Sequence[bool]) -> list[Any]:
    connection.send_packed_command([sent])
    parser = getattr(connection, "_parser", None)
    if not _fast(connection, parser):
        return [_public(connection, raw) for raw in raws]
    try:
        replies = _read(parser, raws)
    except TimeoutError:
        raise RedisTimeoutError("Timeout while waiting for replies") from None
    except OSError as error:
        raise RedisConnectionError(f"Error while waiting for replies: {error.args}") from error
    if connection.health_check_interval:
        connection.next_health_check = time.monotonic() + connection.health_check_interval
    return replies


def _public(connection: Any, raw: bool) -> Any:
    try:
        return connection.read_response(disable_decoding=raw)
    except ResponseError as error:
        return error


def _fast(connection: Any, parser: Any) -> bool:
    """Whether the parts of redis-py that `_read` uses are there, and no connection class reads replies its own way."""
    reader = getattr(parser, "_reader", None)
    return (
        hiredis is not None
        and type(parser) is _HiredisParser
        and type(connection).read_response is Connection.read_response
        and hasattr(parser, "read_from_socket")
        and reader is not None
        and not reader.has_data()
        and reader.gets() is NOT_ENOUGH_DATA  # older versions of redis-py have it say so otherwise
    )


def _read(parser: Any, raws: Sequence[bool]) -> list[Any]:
    reader = parser._reader
    replies = []
    for raw in raws:
        while True:
            reply = reader.gets(False) if raw else reader.gets()
            if type(reply) in _PLAIN:
                break
            if reply is NOT_ENOUGH_DATA:
                parser.read_from_socket()
            elif _PUSH is not None and type(reply) is _PUSH:
                parser.handle_push_response(reply)
            elif isinstance(reply, RedisConnectionError):
                raise reply
            else:
                break
        replies.append(reply)
    return replies
