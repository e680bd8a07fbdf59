"""How callers share round trips here, and wait for their answers. Written by hand, one per flavour, same exports."""

from __future__ import annotations

import asyncio
import copy
import types
from collections.abc import Awaitable, Callable, Generator
from typing import Any, Generic, ParamSpec, TypeVar

__all__ = ["LANES", "MOST", "Gathering", "kept"]

P = ParamSpec("P")
T = TypeVar("T")
In = TypeVar("In")

LANES = 2
"""How many round trips of one client may be under way for callers that gather."""

SHARED = 16
"""From how many callers on a round trip is made two that overlap."""

MOST = 200
"""How many callers share one at the most."""


class _Answer(asyncio.Future[T]):
    """What one caller waits for. While it is kept, a cancellation of the caller is heard when the answer is there."""

    kept = False

    def cancel(self, msg: Any = None) -> bool:
        return False if self.kept else super().cancel(msg)


@types.coroutine
def kept(call: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> Generator[Any, None, T]:
    """`shielded`, in the caller's own task: for calls that wait for little but gathered answers, and use no timeouts,
    which would not be heard. A cancellation waits until the call has ended."""
    running: Any = call(*args, **kwargs)
    cancelled: asyncio.CancelledError | None = None
    while True:
        try:
            waits_for = running.send(None)
        except StopIteration as ended:
            if cancelled is not None:
                raise cancelled from None
            given: T = ended.value
            return given
        if type(waits_for) is _Answer:
            waits_for.kept = True
            try:
                yield waits_for
            except asyncio.CancelledError as error:
                cancelled = error
            except GeneratorExit:
                running.close()
                raise
            except BaseException:
                pass  # the answer's own: the call hears it when it goes on
            continue
        while waits_for is not None and not waits_for.done():
            waits_for._asyncio_future_blocking = False
            told = waits_for.get_loop().create_future()
            waits_for.add_done_callback(lambda _, told=told: told.done() or told.set_result(None))
            try:
                yield from told
            except asyncio.CancelledError as error:
                cancelled = error
        if waits_for is None:
            try:
                yield
            except asyncio.CancelledError as error:
                cancelled = error


class Gathering(Generic[In, T]):
    """Sends what several callers have to say at once: what comes while a round trip is under way goes with the next.

    `flush` takes what they say and gives the answers, in order. A caller that is cancelled leaves the others alone.
    """

    def __init__(self, flush: Callable[[list[In]], Awaitable[list[T]]]) -> None:
        self._flush = flush
        self._waiting: list[tuple[In, _Answer[T]]] = []
        self._running: set[asyncio.Task[None] | None] = set()
        self._starting = 0

    async def say(self, what: In) -> T:
        """The answer to `what`. Raises what `flush` raises."""
        answer: _Answer[T] = _Answer()
        self._waiting.append((what, answer))
        if len(self._running) < LANES and (self._starting == 0 or len(self._waiting) == SHARED):
            self._starting += 1
            running = asyncio.get_running_loop().create_task(self._run())
            self._running.add(running)
            running.add_done_callback(self._running.discard)
        return await answer

    async def _run(self) -> None:
        try:
            await self._send()
        finally:  # at once: a lane that has ended hears nobody any more
            self._running.discard(asyncio.current_task())

    async def _send(self) -> None:
        # where two start at once each takes its share: while the one's replies are read, the other's are made
        most = min(MOST, -(-len(self._waiting) // max(1, self._starting)))
        self._starting = max(0, self._starting - 1)
        while self._waiting:
            batch, self._waiting = self._waiting[:most], self._waiting[most:]
            most = MOST
            try:
                answers = await self._flush([what for what, _ in batch])
            except BaseException as error:
                for _, answer in batch:
                    if not answer.done():
                        answer.set_exception(_alike(error))
                if not isinstance(error, Exception):
                    raise
            else:
                for (_, answer), said in zip(batch, answers, strict=True):
                    if not answer.done():
                        answer.set_result(said)


def _alike(error: BaseException) -> BaseException:
    """An error of the same kind for one more caller: each has a traceback of its own."""
    try:
        return copy.copy(error)
    except Exception:
        return error
