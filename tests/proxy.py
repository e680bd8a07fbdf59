"""A proxy in front of a server: swallows the reply to a chosen command and cuts that connection.

It runs on a thread of its own, so that tests of both flavours use it alike.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator

import pytest
from durably.embedded import EmbeddedServer
from servers import Given


class Proxy:
    """Use `serving` to make one."""

    def __init__(self, upstream: int, host: str = "127.0.0.1", database: str = "0") -> None:
        self.upstream = upstream
        self.host = host
        self.database = database
        self.port = 0
        self.swallowed = 0
        self._doomed: bytes | None = None
        self._most: int | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._running: set[asyncio.Task[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._listening = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)

    @property
    def url(self) -> str:
        """The address that clients use."""
        return f"redis://127.0.0.1:{self.port}/{self.database}"

    def swallow_next(self, command: str) -> None:
        """Let the next `command` reach the server, drop its reply, and cut that connection."""
        self._doomed = b"\r\n" + command.upper().encode() + b"\r\n"

    def cut_after(self, size: int) -> None:
        """Let `size` bytes of what comes back next through, and cut that connection in the middle of it."""
        self._most = size

    def start(self) -> None:
        """Listen."""
        self._thread.start()
        assert self._listening.wait(10), "the proxy does not listen"

    def end(self) -> None:
        """Cut everything and stop listening."""
        if self._loop is not None and self._stop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    def _abort(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        listening = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = listening.sockets[0].getsockname()[1]
        self._listening.set()
        await self._stop.wait()
        listening.close()
        self._abort()
        for running in list(self._running):
            running.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        await listening.wait_closed()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        running = asyncio.ensure_future(self._handle(reader, writer))
        self._running.add(running)
        running.add_done_callback(self._running.discard)

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(self.host, self.upstream)
        self._writers |= {writer, back}
        drop = False

        async def upwards() -> None:
            nonlocal drop
            while data := await reader.read(65536):
                if self._doomed is not None and self._doomed in data.upper():
                    self._doomed = None
                    self.swallowed += 1
                    drop = True
                back.write(data)
                await back.drain()
            back.close()

        async def downwards() -> None:
            while data := await there.read(65536):
                if drop:
                    break
                if self._most is not None:
                    writer.write(data[: self._most])
                    await writer.drain()
                    self._most = None
                    self.swallowed += 1
                    break
                writer.write(data)
                await writer.drain()
            if drop:
                writer.transport.abort()
            else:
                writer.close()

        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(upwards())
                group.create_task(downwards())
        except* (ConnectionError, OSError):
            pass
        finally:
            for one in (writer, back):
                self._writers.discard(one)
                one.transport.abort()


@contextlib.contextmanager
def serving(server: EmbeddedServer | Given) -> Iterator[Proxy]:
    """A proxy in front of `server`."""
    host = "127.0.0.1"
    if isinstance(server, Given):
        host = server.host
        if not server.plain:
            pytest.skip("the given address asks for a password or TLS: no proxy gets between")
    proxy = Proxy(server.port, host, server.url.rpartition("/")[2])
    proxy.start()
    try:
        yield proxy
    finally:
        proxy.end()
