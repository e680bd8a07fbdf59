"""The wire format of a record: `<position>:<server ms>:<encoding>`, as text or, under a codec that gives bytes, as bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from durably.codec import Carries, CheckpointCodec, KnowsSteps
from durably.msgspec_codec import MARK
from durably.signals import Undecodable, Unencodable

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)

MAX_BYTES = 1 << 20
"""How large an encoding may be unless a store is told otherwise, in bytes."""

Encoding = str | bytes


@dataclass(frozen=True, slots=True)
class Stored:
    """One hash field, taken apart. `at` is the server's time of the write, in ms."""

    position: int
    at: int
    encoding: Encoding

    @property
    def written(self) -> datetime:
        """The time of the write, aware, UTC."""
        return _EPOCH + timedelta(milliseconds=self.at)


def parse_stored(workflow: str, key: str, field: Encoding) -> Stored:
    """Take a field apart, or raise `Undecodable` naming workflow and step."""
    if isinstance(field, str):
        position, _, rest = field.partition(":")
        at, colon, encoding = rest.partition(":")
        if colon and position.isdecimal() and at.isdecimal():
            return Stored(int(position), int(at), encoding)
    else:
        head, _, tail = field.partition(b":")
        when, mark, raw = tail.partition(b":")
        if mark and head.isdigit() and when.isdigit():
            return Stored(int(head), int(when), raw)
    raise Undecodable(f"step {key!r} of workflow {workflow!r} holds no record: {field[:80]!r}")


def in_order(workflow: str, fields: Mapping[Any, Any]) -> list[tuple[str, Stored]]:
    """All fields of a workflow, in the order in which they were first recorded."""
    parsed = [(name, parse_stored(workflow, name, field)) for name, field in _named(fields)]
    parsed.sort(key=lambda one: (one[1].position, one[1].at))
    return parsed


def _named(fields: Mapping[Any, Any]) -> list[tuple[str, Encoding]]:
    return [(key if isinstance(key, str) else key.decode(), field) for key, field in fields.items()]


def check_max_bytes(most: int | None) -> int | None:
    """Return `most`, or raise a `ValueError` if it is neither `None` nor a number above 0."""
    if most is not None and (isinstance(most, bool) or not isinstance(most, int) or most < 1):
        raise ValueError(f"max_bytes must be 1 or more, or None, not {most!r}")
    return most


def is_bytes(codec: CheckpointCodec[Any]) -> bool:
    """Whether a codec gives bytes: asked once, with a value that every codec carries."""
    return isinstance(codec.encode(None), bytes)


def is_typed(codec: object, key: str) -> bool:
    """Whether a codec has a type of its own for a step's value."""
    if codec is None:
        return False
    one: Any = codec.for_step(key) if isinstance(codec, KnowsSteps) else codec
    return getattr(one, "type", Any) is not Any


def _for_step(codec: CheckpointCodec[Any], key: str) -> CheckpointCodec[Any]:
    return codec.for_step(key) if isinstance(codec, KnowsSteps) else codec


def carry(
    codec: CheckpointCodec[Any], workflow: str, key: str, value: object, most: int | None = MAX_BYTES
) -> tuple[Any, object]:
    """The encoding of `value` and what it gives back, or `Unencodable` naming workflow and step.

    `most` is how large the encoding may be, in bytes. Nothing has been written by then.
    """
    one = _for_step(codec, key)
    where = f"the value of step {key!r} in workflow {workflow!r}"
    try:
        if isinstance(one, Carries):
            encoding, back = one.carry(value)
        else:
            encoding = one.encode(value)
            back = one.decode(encoding)
        if isinstance(encoding, str):
            size = len(encoding) if encoding.isascii() else len(encoding.encode("utf-8"))
        elif isinstance(encoding, bytes):
            size = len(encoding)
        else:
            raise TypeError(f"it gave {type(encoding).__name__}, neither text nor bytes")
    except (TypeError, ValueError, RecursionError) as error:
        raise Unencodable(
            f"{where} cannot be recorded with {one!r}: {type(value).__name__}: {error}"
        ) from error
    if most is not None and size > most:
        raise Unencodable(
            f"{where} is {size} bytes long when encoded, more than the store's max_bytes={most}: "
            "keep large data elsewhere and record where"
        )
    return encoding, back


def decode(codec: CheckpointCodec[Any], workflow: str, key: str, encoding: Encoding) -> object:
    """The value of `encoding`, or `Undecodable` naming workflow and step."""
    one = _for_step(codec, key)
    try:
        return one.decode(encoding)
    except (TypeError, ValueError, RecursionError) as error:
        raise Undecodable(
            f"the record of step {key!r} in workflow {workflow!r} cannot be read with {one!r}: "
            f"{_written_with(encoding)}{error}: {encoding[:80]!r}"
        ) from error


def as_text(workflow: str, key: str, encoding: Encoding, codec: CheckpointCodec[Any]) -> str:
    """An encoding read as bytes, for a codec of text. Raises `Undecodable` if it is none."""
    if isinstance(encoding, str):
        return encoding
    try:
        return encoding.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Undecodable(
            f"the record of step {key!r} in workflow {workflow!r} cannot be read with {codec!r}: "
            f"{_written_with(encoding)}{error}"
        ) from None


def _written_with(encoding: Encoding) -> str:
    if isinstance(encoding, bytes):
        if encoding[:1] == MARK:
            return "it was written with MsgpackCodec: "
        if encoding[:1] in b'{["tfn-0123456789':
            return "it looks like JSON text: "
    return ""
