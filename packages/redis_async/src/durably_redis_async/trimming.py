"""Housekeeping of the stream: what nobody needs any more goes, in calls that hold the server shortly."""

from __future__ import annotations

from typing import Protocol

from durably import queue_scripts as queue

from durably_redis_async._client import Script


class Stream(Protocol):
    """What housekeeping needs of a stream scheduler."""

    @property
    def ready_key(self) -> str:
        """The stream's key."""
        ...

    @property
    def marks_key(self) -> str:
        """The key of the marks that cancellations leave."""
        ...

    @property
    def scan(self) -> int:
        """How many entries, or marks, are read at once."""
        ...

    @property
    def trimmer(self) -> Script:
        """The script that trims."""
        ...

    @property
    def sweeper(self) -> Script:
        """The script that deletes what marks hold back."""
        ...

    @property
    def unmarker(self) -> Script:
        """The script that takes marks off."""
        ...


async def trim(stream: Stream) -> int:
    """Delete what was cancelled, then what every group has answered for, then take off the marks of cancellations that
    hold nothing back any more. How many entries went."""
    keys = [stream.ready_key, stream.marks_key]
    last = upto = ""
    removed = 0
    swept = await stream.sweeper(keys, ["", "", stream.scan])
    marked = bool(swept)
    while swept:
        last, upto, deleted = swept
        removed += int(deleted)
        swept = await stream.sweeper(keys, [last, upto, stream.scan]) if last else []
    while True:
        chunk = int(await stream.trimmer([stream.ready_key], [queue.TRIM_CHUNK]))
        removed += chunk
        if chunk < queue.TRIM_CHUNK:
            break
    cursor = "0"
    while marked:
        cursor = str(await stream.unmarker(keys, [upto, cursor, stream.scan]))
        marked = cursor != "0"
    return removed
