"""A proxy in front of a server: swallows the reply to a chosen command and cuts the connection, or cuts them all."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from durably.embedded import EmbeddedServer


class Proxy:
    """Use `serving` to make one."""

    def __init__(self, upstream: int) -> None:
        self.upstream = upstream
        self.port = 0
        self.swallowed = 0
        self._doomed: bytes | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._running: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        """The address that clients use."""
        return f"redis://127.0.0.1:{self.port}/0"

    def swallow_next(self, command: str) -> None:
        """Let the next `command` reach the server, drop its reply, and cut that connection."""
        self._doomed = b"\r\n" + command.upper().encode() + b"\r\n"

    def cut(self) -> None:
        """Cut every connection."""
        for writer in list(self._writers):
            writer.transport.abort()

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One client."""
        there, back = await asyncio.open_connection("127.0.0.1", self.upstream)
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
                writer.write(data)
                await writer.drain()
            writer.transport.abort()

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

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Handle a client until it goes."""
        running = asyncio.ensure_future(self.handle(reader, writer))
        self._running.add(running)
        running.add_done_callback(self._running.discard)

    async def close(self) -> None:
        """Cut everything and wait for it."""
        self.cut()
        for running in list(self._running):
            running.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)


@contextlib.asynccontextmanager
async def serving(server: EmbeddedServer) -> AsyncIterator[Proxy]:
    """A proxy in front of `server`."""
    proxy = Proxy(server.port)
    listening = await asyncio.start_server(proxy.accept, "127.0.0.1", 0)
    proxy.port = listening.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        listening.close()
        await proxy.close()
        await listening.wait_closed()
