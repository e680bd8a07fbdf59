# Generated from packages/redis_async/src/durably_redis_async/stream_reads.py by twin.py. Edit that file.
"""Blocking reads of streams: of one, or of several on one server at once."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from durably import queue_scripts as queue
from durably.durations import milliseconds
from durably.values import Delivery

from durably_redis_sync._client import Call, ResponseError, attempt_alone, patiently, socket_timeout


def read_streams(streams: Sequence[Any], within: timedelta, most: int) -> list[list[Delivery]]:
    """The next wakeups of streams on one server that are read under one name, `most` of each at most, in one blocking
    read of `within` at most: as soon as there is one."""
    block = max(1, milliseconds(within))
    patience = socket_timeout(streams[0].redis)
    if patience is not None:
        block = max(1, min(block, int(patience * 500)))
    try:
        reply, marks = blocking_read(streams, block, most, True)
    except ResponseError as error:
        if "NOGROUP" not in str(error) and "UNBLOCKED" not in str(error):
            raise
        for one in streams:
            one.prepare()
        return [[] for _ in streams]
    entries = queue.read_streams(reply)
    return [one._kept(entries.get(one.ready_key, []), marks[n]) for n, one in enumerate(streams)]


def blocking_read(streams: Sequence[Any], block: int, most: int, sifts: bool) -> tuple[Any, list[int]]:
    """The reply of one read, and how many marks of cancellations each stream has when the read is over."""
    one = streams[0]
    keys = [stream.ready_key for stream in streams]
    words: tuple[str | int, ...] = (
        "XREADGROUP",
        "GROUP",
        one.group,
        one.consumer,
        "COUNT",
        most,
        "BLOCK",
        block,
        "STREAMS",
        *keys,
    )
    calls = [Call(one.redis, (*words, *(">" for _ in keys)), list, at=keys[0])]
    if sifts:
        calls += [Call(one.redis, ("HLEN", stream.marks_key), int) for stream in streams]

    def read() -> list[Any]:
        replies = attempt_alone(calls)
        for reply in replies:
            if isinstance(reply, Exception):
                raise reply
        return replies

    reply, *marks = patiently(one.redis, read)
    return reply, marks if sifts else [int(stream.marked) for stream in streams]
