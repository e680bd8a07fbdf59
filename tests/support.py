"""What tests of both flavours share. What differs is in `support_async` and `support_sync`."""

from __future__ import annotations

from datetime import timedelta
from typing import Any


def ms(n: float) -> timedelta:
    """`n` milliseconds."""
    return timedelta(milliseconds=n)


def same(value: object) -> Any:
    """A parse that hands back what it is given."""
    return value
