"""How this flavour waits. Written by hand, one per flavour, with the same exports and call shapes."""

from __future__ import annotations

import contextvars
import inspect
import itertools
import queue
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from types import TracebackType
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

Returning = Callable[P, T]
"""A call that gives a `T` in this flavour's way."""

CANCELLED: tuple[type[BaseException], ...] = ()
"""What a cancelled wait raises here: a thread cannot be cancelled."""

Event = threading.Event
sleep = time.sleep

_numbers = itertools.count(1)


def wait_for(event: Event, timeout: float | None) -> bool:
    """Wait until `event` is set, for `timeout` seconds at most; whether it is set."""
    return event.wait(timeout)


if TYPE_CHECKING:

    class Guard:
        """Keeps shared state whole while threads use it."""

        def __enter__(self) -> object: ...
        def __exit__(self, *_: object) -> None: ...

else:
    Guard = threading.Lock


class _Deferring:
    """Lets a Ctrl-C or SIGTERM wait for the end of a block in the main thread; the second one does not wait."""

    def __init__(self) -> None:
        self._before: dict[int, Any] = {}
        self._came: tuple[int, Any] | None = None

    def __enter__(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            before = signal.getsignal(number)
            if callable(before):
                self._before[number] = before
                signal.signal(number, self._note)

    def _note(self, number: int, frame: Any) -> None:
        if self._came is not None:
            self._before[number](number, frame)
        self._came = (number, frame)

    def __exit__(self, *_: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
        if self._came is not None:
            number, frame = self._came
            self._before[number](number, frame)


def called(effect: Callable[[], T], what: str, *names: str) -> T:
    """What `effect` gives. Raises `TypeError` saying `what`, with `names` filled in, for one of the other flavour."""
    made = effect()
    if inspect.iscoroutine(made):
        made.close()
        raise TypeError(f"{what.format(*names)} must be an ordinary function here: it gave a coroutine")
    return made


def shielded(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a call to its end even if a Ctrl-C comes meanwhile; then let it be heard. A second one is heard at once."""
    if threading.current_thread() is not threading.main_thread():
        return call(*args, **kwargs)
    with _Deferring():
        return call(*args, **kwargs)


class Slots:
    """At most `limit` at once."""

    def __init__(self, limit: int) -> None:
        self._free = limit
        self._lock = threading.Lock()
        self._waiting: deque[Any] = deque()

    @property
    def free(self) -> int:
        """How many are free."""
        return self._free

    def acquire(self, timeout: float | None = None) -> bool:
        """Take one, waiting `timeout` seconds at most; whether it was taken."""
        with self._lock:
            if self._free > 0:
                self._free -= 1
                return True
            turn = threading.Lock()
            turn.acquire()
            self._waiting.append(turn)
        given = False
        try:
            given = turn.acquire(timeout=-1 if timeout is None else timeout)
        except BaseException:
            if self._taken_back(turn):
                self.release()
            raise
        return given or self._taken_back(turn)

    def _taken_back(self, turn: Any) -> bool:
        """Wait no longer; whether the turn had come by then."""
        with self._lock:
            try:
                self._waiting.remove(turn)
            except ValueError:
                return True
            return False

    def release(self) -> None:
        """Give one back."""
        with self._lock:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._free += 1


class Work:
    """A call that can be asked to stop. A thread cannot be made to: what runs in it is refused its next step."""

    def __init__(self) -> None:
        self._stopped = False
        self._thread: threading.Thread | None = None

    @property
    def name(self) -> str:
        """What it runs in."""
        return f"thread {self._thread.name}" if self._thread is not None else "nothing"

    def run(self, call: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
        """Run the call to its end, unless `cancel` came before."""
        if self._stopped:
            return
        self._thread = threading.current_thread()
        call(*args, **kwargs)

    run_here = run

    def cancel(self) -> None:
        """Ask it to stop."""
        self._stopped = True


class Nursery:
    """Runs calls side by side, each on a thread, and ends when all have ended.

    A failure sets the events given; failures come as a group. The threads are daemons, used again for further
    calls, and end with the nursery. One that was abandoned and never ends does not keep the process from ending.
    """

    def __init__(self, *on_failure: Event) -> None:
        self._on_failure = on_failure
        self._calls: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
        self._changed = threading.Condition()
        self._running = 0
        self._threads = 0
        self._abandoned = False
        self._failures: list[BaseException] = []

    def __enter__(self) -> Nursery:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        if error is not None:
            self._tell()
            if not isinstance(error, Exception):
                self.abandon()
        try:
            self.settle(None)
        except BaseException:
            self._tell()
            raise
        finally:
            for _ in range(self._threads):
                self._calls.put(None)
        with self._changed:
            failures = list(self._failures)
        leaving = [one for one in failures if isinstance(one, (KeyboardInterrupt, SystemExit))]
        if leaving:
            raise leaving[0]
        if error is not None and not isinstance(error, Exception):
            return None
        if error is not None:
            failures.insert(0, error)
        if failures:
            raise BaseExceptionGroup("failures side by side", failures)
        return None

    def start(self, call: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
        """Start a call."""
        context = contextvars.copy_context()

        def run() -> None:
            context.run(call, *args, **kwargs)

        with self._changed:
            self._running += 1
            spawn = self._running > self._threads
            if spawn:
                self._threads += 1
        self._calls.put(run)
        if spawn:
            threading.Thread(target=self._serve, name=f"durably-{next(_numbers)}", daemon=True).start()

    def _serve(self) -> None:
        while (call := self._calls.get()) is not None:
            try:
                call()
            except BaseException as error:
                with self._changed:
                    self._failures.append(error)
                self._tell()
            finally:
                with self._changed:
                    self._running -= 1
                    if self._running == 0:
                        self._changed.notify_all()
                del call

    def _tell(self) -> None:
        for event in self._on_failure:
            event.set()

    def settle(self, timeout: float | None) -> bool:
        """Wait until every call has ended or was abandoned, for `timeout` seconds at most; whether they have."""
        with self._changed:
            return self._changed.wait_for(lambda: self._running == 0 or self._abandoned, timeout)

    def cancel(self) -> None:
        """Ask every call to stop: here they run to their end."""

    def abandon(self) -> None:
        """Wait for no call any longer."""
        with self._changed:
            self._abandoned = True
            self._changed.notify_all()


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
            one.stop.set()

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
        self._items: queue.SimpleQueue[T] = queue.SimpleQueue()

    def put(self, item: T) -> None:
        """Add one."""
        self._items.put(item)

    def get(self, timeout: float | None = None) -> T | None:
        """The oldest, waiting `timeout` seconds at most; `None` when none came."""
        try:
            return self._items.get(timeout=timeout)
        except queue.Empty:
            return None


class Waiting(Generic[T]):
    """Calls that wait side by side, one per name, each on a thread. What they give is handed out as it comes; what
    comes for nobody is handed out first the next time."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._given: list[T] = []
        self._failed: list[BaseException] = []
        self._running: set[object] = set()

    def first(self, calls: Mapping[object, Callable[[], list[T]]], timeout: float) -> list[T]:
        """What some of `calls` give first, waiting `timeout` seconds at most. A call whose name is still waiting is not
        begun again. Raises what a call raises."""
        with self._changed:
            if not self._given:
                for name, call in calls.items():
                    if name not in self._running:
                        self._running.add(name)
                        number = next(_numbers)
                        thread = threading.Thread(
                            target=self._wait, args=(name, call), name=f"durably-{number}", daemon=True
                        )
                        thread.start()
                self._changed.wait_for(lambda: self._given or self._failed or not self._running, timeout)
            return self._taken()

    def rest(self) -> list[T]:
        """What the calls that still wait give: no more are begun."""
        with self._changed:
            self._changed.wait_for(lambda: not self._running)
            return self._taken()

    def _taken(self) -> list[T]:
        given, self._given = self._given, []
        failed, self._failed = self._failed, []
        if failed and not given:
            raise failed[0]
        return given

    def _wait(self, name: object, call: Callable[[], list[T]]) -> None:
        given: list[T] = []
        failed: list[BaseException] = []
        try:
            given = call()
        except BaseException as error:
            failed = [error]
        with self._changed:
            self._running.discard(name)
            self._given += given
            self._failed += failed
            self._changed.notify_all()
