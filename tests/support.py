"""What tests of the async flavour share."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, TypeVar

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialBackoff

T = TypeVar("T")


def ms(n: float) -> timedelta:
    """`n` milliseconds."""
    return timedelta(milliseconds=n)


async def eventually(predicate: Callable[[], Awaitable[T]], *, describing: str, within: float = 10.0) -> T:
    """Wait until `predicate` gives something true, and return it; fail after `within` seconds."""
    until = time.monotonic() + within
    while True:
        found = await predicate()
        if found:
            return found
        assert time.monotonic() < until, f"not within {within} s: {describing}"
        await asyncio.sleep(0.01)


def client(url: str, **options: Any) -> Redis:
    """A client as `Redis(...)` makes it, which sends a command again when its connection dies (`from_url` does not)."""
    options.setdefault("retry", Retry(ExponentialBackoff(cap=0.5, base=0.01), 10))
    made: Redis = Redis.from_url(url, decode_responses=True, **options)
    return made
