"""How tests of the blocking flavour wait, and who their client is. Written by hand, one per flavour."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from redis import Redis, RedisCluster
from redis.backoff import ExponentialBackoff
from redis.retry import Retry
from redis.sentinel import Sentinel

__all__ = [
    "STOPPED",
    "Crashed",
    "Event",
    "Faults",
    "Redis",
    "Started",
    "client",
    "cluster_client",
    "eventually",
    "leave",
    "other_flavours",
    "run_alone",
    "sentinel_client",
    "sleep",
    "together",
    "wait",
]

P = ParamSpec("P")
T = TypeVar("T")

Event = threading.Event
sleep = time.sleep

STOPPED: tuple[type[BaseException], ...] = ()
"""What a body sees when its pass is asked to stop: nothing, it is refused its next step."""


def wait(event: Event, timeout: float) -> bool:
    """Wait for an event, for `timeout` seconds at most; whether it is set."""
    return event.wait(timeout)


class Started:
    """A call that runs beside the test."""

    def __init__(self, call: Callable[P, Any], *args: P.args, **kwargs: P.kwargs) -> None:
        self._future: Future[Any] = Future()

        def run() -> None:
            try:
                self._future.set_result(call(*args, **kwargs))
            except BaseException as error:
                self._future.set_exception(error)

        threading.Thread(target=run, daemon=True).start()

    def result(self, timeout: float = 10.0) -> Any:
        """What it gives, within `timeout` seconds."""
        return self._future.result(timeout)


def together(*calls: Callable[[], Any]) -> list[Any]:
    """What the calls give, side by side. Failures come as a group."""
    running = [Started(call) for call in calls]
    results: list[Any] = []
    failures: list[BaseException] = []
    for one in running:
        try:
            results.append(one.result(60))
        except BaseException as error:
            failures.append(error)
    if failures:
        raise BaseExceptionGroup("side by side", failures)
    return results


def eventually(predicate: Callable[[], T], *, describing: str, within: float = 10.0) -> T:
    """Wait until `predicate` gives something true, and return it; fail after `within` seconds."""
    until = time.monotonic() + within
    while True:
        found = predicate()
        if found:
            return found
        assert time.monotonic() < until, f"not within {within} s: {describing}"
        time.sleep(0.01)


def client(url: str, **options: Any) -> Redis:
    """A client as `Redis(...)` makes it, which sends a command again when its connection dies (`from_url` does not)."""
    if "DURABLY_TEST_PROTOCOL" in os.environ:
        options.setdefault("protocol", int(os.environ["DURABLY_TEST_PROTOCOL"]))
    if "DURABLY_TEST_LEGACY" in os.environ:
        options.setdefault("legacy_responses", os.environ["DURABLY_TEST_LEGACY"] != "0")
    options.setdefault("retry", Retry(ExponentialBackoff(cap=0.5, base=0.01), 10))
    if os.environ.get("DURABLY_TEST_SERVER", "").startswith("cluster"):
        options.pop("retry")
        return cluster_client(url, **options)  # type: ignore[no-any-return]
    made: Redis = Redis.from_url(url, decode_responses=True, **options)
    return made


def cluster_client(url: str, **options: Any) -> Any:
    """A client of the cluster that the node at `url` belongs to."""
    if "DURABLY_TEST_PROTOCOL" in os.environ:
        options.setdefault("protocol", int(os.environ["DURABLY_TEST_PROTOCOL"]))
    return RedisCluster.from_url(url, decode_responses=True, **options)


_asked: WeakKeyDictionary[Redis, list[Redis]] = WeakKeyDictionary()
"""Who asks each client's sentinels. redis-py's own list loses some when several connections look for a master at once."""


def sentinel_client(
    sentinels: list[tuple[str, int]], name: str, *, replica: bool = False, **options: Any
) -> Redis:
    """A client of the master (or a replica) that the sentinels name, as operators are told to make it."""
    if "DURABLY_TEST_PROTOCOL" in os.environ:
        options.setdefault("protocol", int(os.environ["DURABLY_TEST_PROTOCOL"]))
    sentinel: Any = Sentinel
    asked = sentinel(sentinels, socket_timeout=2.0)
    ask = asked.slave_for if replica else asked.master_for
    made: Redis = ask(name, decode_responses=True, **options)
    _asked[made] = list(asked.sentinels)
    return made


def leave(client: Redis) -> None:
    """Close a client, and those that ask its sentinels."""
    client.close()
    for asked in _asked.pop(client, []):
        asked.close()


async def other_flavours(*_: object) -> Any:
    """A call of the other flavour."""
    return 1


HIDDEN = ("claiming", "reading", "together", "holding", "next_several", "post_in_step")
"""What a pair under `Faults` does not have, so that each of its acts is a call of its own."""


class Crashed(BaseException):
    """The process is dead, as far as the pair under `Faults` is concerned."""


class Faults:
    """Ends a process at one boundary of the calls that it makes: an even one is before a call, an odd one after it.

    `act` is what is done there; then, and ever after, each call raises `Crashed`.
    """

    def __init__(self, at: int, act: Callable[[], object] = lambda: None) -> None:
        self.at = at
        self.act = act
        self.passed: list[str] = []
        self.dead = False

    def pass_by(self, name: str) -> None:
        """Come to the next boundary."""
        if not self.dead and len(self.passed) == self.at:
            self.dead = True
            self.act()
        if self.dead:
            raise Crashed
        self.passed.append(name)

    def over(self, of: Any) -> Any:
        """`of`, whose calls come to boundaries."""
        return _Faulty(of, self)


class _Faulty:
    def __init__(self, of: Any, faults: Faults) -> None:
        self._of = of
        self._faults = faults

    def __getattr__(self, name: str) -> Any:
        if name in HIDDEN:
            raise AttributeError(name)
        made = getattr(self._of, name)
        if not callable(made) or name in ("now", "codec"):
            return made

        def call(*args: Any, **options: Any) -> Any:
            self._faults.pass_by(f"before {name}")
            answer = made(*args, **options)
            self._faults.pass_by(f"after {name}")
            return answer

        return call


def run_alone(main: Callable[[], None]) -> None:
    """Run a process's `main`."""
    main()
