"""What one pass can come to: a sealed union, for `match`."""

from __future__ import annotations

from typing import TypeVar, Union

from durably.values import Blocked, Completed, Sleeping

T = TypeVar("T")

Outcome = Union[Completed[T], Sleeping, Blocked]
"""`Completed`, `Sleeping` or `Blocked`."""
