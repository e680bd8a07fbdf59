"""What tests of the async flavour share."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TypeVar

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
