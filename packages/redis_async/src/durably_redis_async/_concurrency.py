"""How this flavour waits. Written by hand, one per flavour, with the same exports and call shapes."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import signal
import sys
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from types import CoroutineType, TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, ParamSpec, TypeVar

__all__ = [
    "CANCELLED",
    "Draining",
    "Event",
    "Guard",
    "Mailbox",
    "Nursery",
    "Returning",
    "Slots",
    "Waiting",
    "Work",
    "called",
    "process_ends",
    "shielded",
    "sleep",
    "wait_for",
]

P = ParamSpec("P")
T = TypeVar("T")
In = TypeVar("In")

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


if TYPE_CHECKING:

    class Guard:
        """Keeps shared state whole while threads use it. Here nothing else runs between two waits."""

        def __enter__(self) -> object: ...
        def __exit__(self, *_: object) -> None: ...

else:
    Guard = threading.RLock  # never waited for here, and entered faster than anything written in Python


def called(effect: Callable[[], Awaitable[T]], what: str, *names: str) -> Awaitable[T]:
    """What `effect` gives. Raises `TypeError` saying `what`, with `names` filled in, for one of the other flavour."""
    made = effect()
    if type(made) is not CoroutineType and not inspect.isawaitable(made):
        raise TypeError(
            f"{what.format(*names)} must be async here: it gave {type(made).__name__}, which cannot be awaited"
        )
    return made


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

    @property
    def free(self) -> int:
        """How many are free."""
        return self._free

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
    """A call that can be asked to stop."""

    def __init__(self) -> None:
        self._stopped = False
        self._running: asyncio.Task[object] | None = None

    @property
    def name(self) -> str:
        """What it runs in."""
        return self._running.get_name() if self._running is not None else "nothing"

    async def run(self, call: Callable[P, Awaitable[object]], *args: P.args, **kwargs: P.kwargs) -> None:
        """Run the call to its end, or until `cancel`, apart from what the caller runs in. A failure comes in a group."""
        if self._stopped:
            return

        async def inner() -> object:
            return await call(*args, **kwargs)

        async with asyncio.TaskGroup() as group:
            self._running = group.create_task(inner())

    async def run_here(self, call: Callable[P, Awaitable[object]], *args: P.args, **kwargs: P.kwargs) -> None:
        """The same in what the caller runs in, which nobody else works in. A failure comes as it is."""
        if self._stopped:
            return
        task = asyncio.current_task()
        assert task is not None
        before = task.cancelling()
        self._running = task
        cancelled: asyncio.CancelledError | None = None
        try:
            await call(*args, **kwargs)
        except asyncio.CancelledError as error:
            cancelled = error
        finally:
            self._running = None
            ours = int(self._stopped and task.cancelling() > before)
            if ours:
                task.uncancel()
        if cancelled is not None and task.cancelling() > before:
            raise cancelled

    def cancel(self) -> None:
        """Ask it to stop."""
        self._stopped = True
        if self._running is not None:
            self._running.cancel()


_LEAVES_A_CANCELLATION = sys.version_info < (3, 13)
"""Before, a group that failed while it waited for its end left the cancellation of its parent counted."""


class Nursery:
    """Runs calls side by side and ends when all have ended.

    A failure sets the events given and cancels the other calls; failures come as a group.
    """

    def __init__(self, *on_failure: Event) -> None:
        self._on_failure = on_failure
        self._group = asyncio.TaskGroup()
        self._running: set[asyncio.Task[object]] = set()

    async def __aenter__(self) -> Nursery:
        self._parent = asyncio.current_task()
        self._before = 0 if self._parent is None else self._parent.cancelling()
        await self._group.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        failed_before = self._group_failed()
        try:
            await self._group.__aexit__(kind, error, trace)
        except BaseExceptionGroup as group:
            parent = self._parent
            if parent is not None:
                if _LEAVES_A_CANCELLATION and self._group_failed() and not failed_before:
                    parent.uncancel()
                if parent.cancelling() > self._before:  # a failure beside it does not undo a cancellation
                    raise asyncio.CancelledError from group
            raise
        return None

    def _group_failed(self) -> bool:
        return bool(getattr(self._group, "_parent_cancel_requested", False))

    def start(self, call: Callable[P, Awaitable[object]], *args: P.args, **kwargs: P.kwargs) -> None:
        """Start a call."""
        made: Any = call(*args, **kwargs)
        running = self._group.create_task(made)
        self._running.add(running)
        running.add_done_callback(self._ended)

    def _ended(self, running: asyncio.Task[object]) -> None:
        self._running.discard(running)
        if not running.cancelled() and running.exception() is not None:
            for event in self._on_failure:
                event.set()

    async def settle(self, timeout: float | None) -> bool:
        """Wait until every call has ended, for `timeout` seconds at most; whether they have."""
        if self._running:
            await asyncio.wait(set(self._running), timeout=timeout)
        return not self._running

    def cancel(self) -> None:
        """Ask every call to stop."""
        for running in list(self._running):
            running.cancel()

    abandon = cancel


class Draining:
    """Sets `stop` at the first SIGTERM or SIGINT, for the length of a block. A second one does what it did before.

    Only in the main thread, and only where `stop` is this block's own (`handle`): elsewhere signals are the
    application's. A signal that is ignored stays ignored. Blocks may overlap: a signal is told to all of them.
    """

    _open: ClassVar[list[Draining]] = []
    _before: ClassVar[dict[int, Any]] = {}

    def __init__(self, stop: Event, handle: bool) -> None:
        self.stop = stop
        self._handle = handle and threading.current_thread() is threading.main_thread()

    def __enter__(self) -> None:
        if not self._handle:
            return
        self.loop = asyncio.get_running_loop()
        self._open.append(self)
        if len(self._open) == 1:
            for number in (signal.SIGTERM, signal.SIGINT):
                before = signal.getsignal(number)
                if before not in (None, signal.SIG_IGN):
                    self._before[number] = before
                    signal.signal(number, Draining._first)

    def __exit__(self, *_: object) -> None:
        if self in self._open:
            self._open.remove(self)
            if not self._open:
                self._restore()

    @staticmethod
    def _first(number: int, frame: object) -> None:
        Draining._restore()
        for one in Draining._open:
            one.loop.call_soon_threadsafe(one.stop.set)

    @classmethod
    def _restore(cls) -> None:
        for number, before in cls._before.items():
            if signal.getsignal(number) is Draining._first:
                signal.signal(number, before)
        cls._before.clear()


def process_ends() -> bool:
    """Whether the main thread has ended: what still runs elsewhere is to come to an end."""
    return not threading.main_thread().is_alive()


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


class Waiting(Generic[T]):
    """Calls that wait side by side, one per name. What they give is handed out as it comes; what comes for nobody is
    handed out first the next time."""

    def __init__(self) -> None:
        self._given: list[T] = []
        self._running: dict[object, asyncio.Task[list[T]]] = {}

    async def first(
        self, calls: Mapping[object, Callable[[], Awaitable[list[T]]]], timeout: float
    ) -> list[T]:
        """What some of `calls` give first, waiting `timeout` seconds at most. A call whose name is still waiting is not
        begun again. Raises what a call raises."""
        if not self._given:
            for name, call in calls.items():
                if name not in self._running:
                    self._running[name] = asyncio.ensure_future(_list(call))
            until = asyncio.get_running_loop().time() + timeout
            while not self._collect() and self._running:
                left = until - asyncio.get_running_loop().time()
                if left <= 0:
                    break
                running = set(self._running.values())
                await asyncio.wait(running, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        given, self._given = self._given, []
        return given

    async def rest(self) -> list[T]:
        """What the calls that still wait give: no more are begun."""
        if self._running:
            await asyncio.wait(set(self._running.values()))
        self._collect()
        given, self._given = self._given, []
        return given

    def _collect(self) -> bool:
        """Take what has come; whether there is anything."""
        ended = {name: running for name, running in self._running.items() if running.done()}
        for name in ended:
            del self._running[name]
        failed = None
        for running in ended.values():
            if running.cancelled():
                continue
            error = running.exception()
            if error is not None:
                failed = error
            else:
                self._given += running.result()
        if failed is not None and not self._given:
            raise failed
        return bool(self._given)


async def _list(call: Callable[[], Awaitable[list[T]]]) -> list[T]:
    return await call()
