"""How callers share round trips here, and wait for their answers. Written by hand, one per flavour, same exports."""

from __future__ import annotations

import copy
import queue
import threading
import time
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from durably_redis_sync._concurrency import shielded

__all__ = ["LANES", "MOST", "Gathering", "kept"]

T = TypeVar("T")
In = TypeVar("In")

LANES = 2
"""How many round trips of one client may be under way for callers that gather."""

SLOW = 0.002
"""After how long under way a round trip has another beside it, in seconds: of threads that wait for a quick one, fewer
have to be woken when they go together."""

MOST = 200
"""How many callers share one at the most."""

kept = shielded
"""In the other flavour, a cheaper way for some calls."""


class _Said(Generic[In, T]):
    def __init__(self, what: In) -> None:
        self.what = what
        self.told: queue.SimpleQueue[None] = queue.SimpleQueue()
        self.done = False
        self.leads = False
        self.gone = False
        self.answer: T | None = None
        self.error: BaseException | None = None


class Gathering(Generic[In, T]):
    """Sends what several callers have to say at once: what comes while a round trip is under way goes with the next.

    `flush` takes what they say and gives the answers, in order. One of the callers sends for all that wait, then the
    next one does.
    """

    def __init__(self, flush: Callable[[list[In]], list[T]]) -> None:
        self._flush = flush
        self._lock = threading.Lock()
        self._waiting: list[_Said[In, T]] = []
        self._leading = 0
        self._began = time.monotonic()

    def say(self, what: In) -> T:
        """The answer to `what`. Raises what `flush` raises. A Ctrl-C meanwhile is heard when it is there."""
        return shielded(self._say, what)

    def _say(self, what: In) -> T:
        said: _Said[In, T] = _Said(what)
        with self._lock:
            self._waiting.append(said)
            said.leads = self._leading == 0 or (
                self._leading < LANES and time.monotonic() - self._began > SLOW
            )
            self._leading += said.leads
        try:
            while not said.done and not said.leads:
                said.told.get()
        except BaseException:
            with self._lock:
                said.gone = True
                if said.leads:
                    self._hand_on()
            raise
        if said.leads:
            self._lead()
        while not said.done:  # another leader has taken it along
            said.told.get()
        if said.error is not None:
            raise said.error
        answer: Any = said.answer
        given: T = answer
        return given

    def _lead(self) -> None:
        with self._lock:
            self._began = time.monotonic()
            batch, self._waiting = self._waiting[:MOST], self._waiting[MOST:]
        try:
            answers = self._flush([one.what for one in batch]) if batch else []
            for one, answer in zip(batch, answers, strict=True):
                one.answer = answer
        except BaseException as error:
            for one in batch:
                one.error = _alike(error)
            if not isinstance(error, Exception):
                raise
        finally:
            with self._lock:
                for one in batch:
                    one.done = True
                    one.told.put(None)
                self._hand_on()

    def _hand_on(self) -> None:
        """Under the lock: let the next one that waits lead, or lead no more."""
        for one in self._waiting:
            if not one.gone and not one.leads:
                one.leads = True
                one.told.put(None)
                return
        self._leading -= 1


def _alike(error: BaseException) -> BaseException:
    """An error of the same kind for one more caller: each has a traceback of its own."""
    try:
        return copy.copy(error)
    except Exception:
        return error
