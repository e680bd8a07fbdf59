"""How this flavour waits. Written by hand, one per flavour, with the same exports and call shapes."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Generic, ParamSpec, TypeVar

__all__ = [
    "CANCELLED",
    "Event",
    "Guard",
    "Mailbox",
    "Nursery",
    "Returning",
    "Slots",
    "Work",
    "shielded",
    "sleep",
    "wait_for",
]

P = ParamSpec("P")
T = TypeVar("T")

Returning = Callable[P, Awaitable[T]]
"""A call that gives a `T` in this flavour's way."""

CANCELLED: tuple[type[BaseException], ...] = (asyncio.CancelledError,)
"""What a cancelled wait raises here."""

Event = asyncio.Event
sleep = asyncio.sleep


async def wait_for(event: Event, timeout: float | None) -> bool:
    """Wait until `event` is set, for `timeout` seconds at most; whether it is set."""
    if event.is_set():
        return True
    try:
        async with asyncio.timeout(timeout):
            await event.wait()
    except TimeoutError:
        return event.is_set()
    return True


class Guard:
    """Keeps shared state whole while threads use it. Here nothing else runs between two waits."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None


async def shielded(call: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a call to its end even if the caller is cancelled meanwhile, however often; then be cancelled.

    An error of the call wins over the cancellation.
    """
    running = asyncio.ensure_future(call(*args, **kwargs))
    cancelled: asyncio.CancelledError | None = None
    while not running.done():
        try:
            await asyncio.shield(running)
        except asyncio.CancelledError as error:
            if not running.done() or not running.cancelled():
                cancelled = error
        except BaseException:
            if not running.done():
                raise
    result = running.result()
    if cancelled is not None:
        raise cancelled
    return result


class Slots:
    """At most `limit` at once."""

    def __init__(self, limit: int) -> None:
        self._free = limit
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def acquire(self, timeout: float | None = None) -> bool:
        """Take one, waiting `timeout` seconds at most; whether it was taken."""
        if self._free > 0:
            self._free -= 1
            return True
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            async with asyncio.timeout(timeout):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():
                self.release()
            else:
                with contextlib.suppress(ValueError):
                    self._waiting.remove(turn)
            if isinstance(error, TimeoutError):
                return False
            raise
        return True

    def release(self) -> None:
        """Give one back."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1


class Work:
    """A call under way in a nursery."""

    def __init__(self, running: asyncio.Task[None]) -> None:
        self._running = running

    def cancel(self) -> None:
        """Ask it to stop."""
        self._running.cancel()

    @property
    def done(self) -> bool:
        """Whether it has ended."""
        return self._running.done()


class Nursery:
    """Runs calls side by side and ends when all have ended. A failure cancels the others; failures come as a group."""

    def __init__(self) -> None:
        self._group = asyncio.TaskGroup()
        self._running: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Nursery:
        await self._group.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        await self._group.__aexit__(kind, error, trace)
        return None

    def start(self, call: Callable[P, Awaitable[object]], *args: P.args, **kwargs: P.kwargs) -> Work:
        """Start a call."""

        async def run() -> None:
            await call(*args, **kwargs)

        running = self._group.create_task(run())
        self._running.add(running)
        running.add_done_callback(self._running.discard)
        return Work(running)

    def cancel(self) -> None:
        """Ask every call to stop."""
        for running in list(self._running):
            running.cancel()


class Mailbox(Generic[T]):
    """A queue between calls: `put` never waits, `get` does."""

    def __init__(self) -> None:
        self._items: asyncio.Queue[T] = asyncio.Queue()

    def put(self, item: T) -> None:
        """Add one."""
        self._items.put_nowait(item)

    async def get(self, timeout: float | None = None) -> T | None:
        """The oldest, waiting `timeout` seconds at most; `None` when none came."""
        if timeout is None:
            return await self._items.get()
        try:
            async with asyncio.timeout(timeout):
                return await self._items.get()
        except TimeoutError:
            return None
