"""Durations as Redis takes them. Every conversion rounds up, so no positive duration becomes a zero.

A zero means something else to Redis (`BLOCK 0` waits for ever, `PEXPIRE 0` deletes), so the conversion is
total and happens once, here.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import lru_cache
from math import ceil

LONGEST = timedelta(days=36_500)
"""The longest duration there is: what Lua counts exactly, and more than anybody waits."""

_MILLISECOND = timedelta(milliseconds=1)
_NONE = timedelta(0)


def check_duration(name: str, duration: timedelta) -> timedelta:
    """Return `duration`, or raise: `TypeError` if it is no `timedelta`, `ValueError` if it is not positive.

    `name` says in the error what the duration is for, such as `"a lease"`.
    """
    if not isinstance(duration, timedelta):
        raise TypeError(f"{name} must be a timedelta, not {type(duration).__name__}: {duration!r}")
    if duration <= _NONE:
        raise ValueError(f"{name} must be positive, not {duration!r}")
    if duration > LONGEST:
        raise ValueError(f"{name} must be at most {LONGEST.days} days, not {duration!r}")
    return duration


def check_idle(idle: timedelta) -> timedelta:
    """Return `idle`, which may be zero ("anything outstanding"), or raise as `check_duration` does."""
    if idle == timedelta(0):
        return idle
    return check_duration("idle", idle)


def check_moment(name: str, moment: datetime) -> datetime:
    """Return `moment`, or raise a `ValueError` if it carries no time zone."""
    if not isinstance(moment, datetime):
        raise TypeError(f"{name} must be a datetime, not {type(moment).__name__}: {moment!r}")
    if moment.tzinfo is None or moment.utcoffset() is None:
        raise ValueError(f"{name} must carry a time zone (try datetime.now(timezone.utc)): {moment!r}")
    return moment


@lru_cache(1024)
def milliseconds(duration: timedelta) -> int:
    """`duration` in whole milliseconds, rounded up."""
    return ceil(duration / _MILLISECOND)


def seconds(duration: timedelta) -> int:
    """`duration` in whole seconds, rounded up."""
    return ceil(duration / timedelta(seconds=1))
