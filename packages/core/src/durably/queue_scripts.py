"""The schedulers' scripts and the shapes of their replies. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from math import ceil
from typing import Any

from durably.durations import check_moment
from durably.lua import read_script
from durably.values import Delivery

STREAM_RING = read_script("stream_ring")
STREAM_MOVE = read_script("stream_move")
STREAM_SUSPEND = read_script("stream_suspend")
STREAM_HOLD = read_script("stream_hold")
STREAM_ANSWER = read_script("stream_answer")
STREAM_CANCEL = read_script("stream_cancel")
STREAM_SIFT = read_script("stream_sift")
STREAM_SWEEP = read_script("stream_sweep")
STREAM_UNMARK = read_script("stream_unmark")
STREAM_TAKE = read_script("stream_take")
STREAM_TRIM = read_script("stream_trim")
STREAM_RECLAIM = read_script("stream_reclaim")
STREAM_HOLDING = read_script("stream_holding")
STREAM_AVAILABLE = read_script("stream_available")
STREAM_PARK = read_script("stream_park")
STREAM_UNPARK = read_script("stream_unpark")
SET_TAKE = read_script("set_take")
SET_KEEP = read_script("set_keep")
SET_FINISH = read_script("set_finish")
SET_SUSPEND = read_script("set_suspend")
SET_RING = read_script("set_ring")
SET_CANCEL = read_script("set_cancel")
SET_HOLDING = read_script("set_holding")
SET_WAKE = read_script("set_wake")
SET_AVAILABLE = read_script("set_available")

SET_PARK = read_script("set_park")
SET_UNPARK = read_script("set_unpark")

TRIM_CHUNK = 2000
"""How many entries one call of the trim script looks at."""

SEVERAL = 500
"""How many deliveries one call takes at the most."""

RECLAIM_STEPS = 50
"""How far one call of the reclaim script looks, in steps of ten pending entries."""

TAKE_READS = 2000
"""How many entries one call of the stream's take reads at the most."""

ANSWERS = 3_600_000
"""How long the set's last answers are kept for a repeated call, in ms: longer than a client goes on repeating."""

REMEMBERED = 600_000
"""How long the answer to an `unpark` is kept for a repeated call, in ms."""

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def as_text(reply: Any) -> str | None:
    """A reply that is text, however the client reads it."""
    return reply.decode() if isinstance(reply, bytes) else reply


def server_time(reply: Any) -> datetime:
    """A TIME reply as an aware moment."""
    seconds, micros = reply
    return _EPOCH + timedelta(seconds=int(seconds), microseconds=int(micros))


def unix_seconds(when: datetime) -> str:
    """A moment as the sleepers' score. Raises `ValueError` if it carries no time zone."""
    micros = (check_moment("a deadline", when) - _EPOCH) // timedelta(microseconds=1)
    sign = "-" if micros < 0 else ""
    whole, part = divmod(abs(micros), 1_000_000)
    return f"{sign}{whole}.{part:06d}"


def unix_milliseconds(when: datetime) -> int:
    """A moment as the schedule's score, rounded up. Raises `ValueError` if it carries no time zone."""
    return ceil((check_moment("a deadline", when) - _EPOCH) / timedelta(milliseconds=1))


def taken_delivery(workflow: Any, receipt: Any) -> Delivery:
    """One of the set's take script's: a receipt of a wakeup out of a sleep comes with an `s` before it."""
    text = str(receipt)
    return Delivery(str(workflow), text.removeprefix("s"), text.startswith("s"))


def read_entries(reply: Any) -> list[tuple[str, dict[str, str]]]:
    """The entries of an XREADGROUP reply on one stream, in any of the shapes that clients give.

    They are a list of `[stream, entries]`, or a mapping of the stream to its entries, one nesting deeper or not.
    """
    if not reply:
        return []
    entries = next(iter(reply.values())) if isinstance(reply, dict) else reply[0][1]
    while entries and isinstance(entries[0], list) and (not entries[0] or not isinstance(entries[0][0], str)):
        entries = entries[0]
    found = [_entry(one) for one in entries or ()]
    return [one for one in found if one is not None]


def read_streams(reply: Any) -> dict[str, list[tuple[str, dict[str, str]]]]:
    """The entries of an XREADGROUP reply on several streams, by stream, in any of the shapes that clients give."""
    pairs = reply.items() if isinstance(reply, dict) else reply or ()
    return {str(as_text(stream)): read_entries([[stream, entries]]) for stream, entries in pairs}


def reclaimed_entry(reply: Any) -> tuple[str, tuple[str, dict[str, str]] | None]:
    """The reclaim script's reply: the next cursor, and the entry taken over or `None`."""
    cursor, *rest = reply
    if not rest:
        return str(cursor), None
    receipt, *fields = rest
    return str(cursor), (str(receipt), dict(zip(fields[::2], fields[1::2], strict=True)))


def _entry(one: Any) -> tuple[str, dict[str, str]] | None:
    if not one or one[0] is None:
        return None
    return str(one[0]), dict(one[1] or {})
