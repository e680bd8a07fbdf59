"""The wire format of a record: `<position>:<server ms>:<encoding>`, as text or, under a codec that gives bytes, as bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any, NamedTuple

from durably.codec import CheckpointCodec
from durably.msgspec_codec import MARK
from durably.signals import Undecodable, Unencodable

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)

MAX_BYTES = 1 << 20
"""How large an encoding may be unless a store is told otherwise, in bytes."""

Encoding = str | bytes


class Rows(NamedTuple):
    """Records taken apart, side by side: steps, the server's times of their writes in ms (as digits), encodings."""

    steps: Sequence[str]
    times: Sequence[Encoding]
    encodings: Sequence[Any]


def moment(at: Encoding) -> datetime:
    """The server's time of a write, aware, UTC."""
    return _EPOCH + timedelta(milliseconds=int(at))


def encoding_of(workflow: str, key: str, field: Encoding) -> Encoding:
    """The encoding in one field, or `Undecodable` naming workflow and step."""
    encoding: Encoding = _taken_apart(workflow, key, field)[3]
    return encoding


def _taken_apart(workflow: str, key: str, field: Encoding) -> tuple[int, Any, str, Any]:
    parts: Any = field.split(":", 2) if isinstance(field, str) else field.split(b":", 2)
    if len(parts) == 3 and parts[0].isdigit() and parts[1].isdigit():
        return int(parts[0]), parts[1], key, parts[2]
    raise Undecodable(f"step {key!r} of workflow {workflow!r} holds no record: {field[:80]!r}")


def in_order(workflow: str, fields: Mapping[Any, Any]) -> Rows:
    """All records of a workflow, in the order in which they were first recorded."""
    steps: list[Any] = [None] * len(fields)
    times, encodings = steps.copy(), steps.copy()
    raw = isinstance(next(iter(fields), ""), bytes)
    colon: Any = b":" if raw else ":"
    try:
        for key, field in fields.items():  # positions run from 0 without a gap, as a rule: no need to sort
            digits, at, encoding = field.split(colon, 2)
            position = int(digits)
            steps[position], times[position], encodings[position] = key, at, encoding
    except (TypeError, ValueError, IndexError):
        steps[:1] = [None]
    if None in steps:
        named = [(key if isinstance(key, str) else key.decode(), field) for key, field in fields.items()]
        apart = [_taken_apart(workflow, key, field) for key, field in named]
        apart.sort(key=lambda one: (one[0], int(one[1])))
        _, times, steps, encodings = (list(column) for column in zip(*apart, strict=True))
    elif raw:
        steps = [key.decode() for key in steps]
    return Rows(steps, times, encodings)


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
    return getattr(_for_step(codec, key), "type", Any) is not Any


def _for_step(codec: Any, key: str) -> Any:
    own = getattr(codec, "for_step", None)
    return codec if own is None else own(key)


def carry(
    codec: CheckpointCodec[Any], workflow: str, key: str, value: object, most: int | None = MAX_BYTES
) -> tuple[Any, object]:
    """The encoding of `value` and what it gives back, or `Unencodable` naming workflow and step.

    `most` is how large the encoding may be, in bytes. Nothing has been written by then.
    """
    one = _for_step(codec, key)
    try:
        both = getattr(one, "carry", None)
        if both is not None:
            encoding, back = both(value)
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
            f"the value of step {key!r} in workflow {workflow!r} cannot be recorded with {one!r}: "
            f"{type(value).__name__}: {error}"
        ) from error
    if most is not None and size > most:
        raise Unencodable(
            f"the value of step {key!r} in workflow {workflow!r} is {size} bytes long when encoded, more than the store's max_bytes={most}: "
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


def decode_all(codec: CheckpointCodec[Any], workflow: str, rows: Rows, raw: bool) -> dict[str, object]:
    """Every record's value by step, in order; all at once where the codec can. `raw`: the codec takes bytes."""
    many = getattr(codec, "decode_many", None) if rows.steps else None
    if many is not None:
        try:
            values: list[object] = many(rows.encodings)
        except (TypeError, ValueError, RecursionError):
            pass  # one by one, to say which it is
        else:
            return dict(zip(rows.steps, values, strict=True))
    pairs = zip(rows.steps, rows.encodings, strict=True)
    return {key: decode_field(codec, workflow, key, encoding, raw) for key, encoding in pairs}


def decode_field(
    codec: CheckpointCodec[Any], workflow: str, key: str, encoding: Encoding, raw: bool
) -> object:
    """One record's value. `raw`: the codec takes bytes. Raises `Undecodable` naming workflow and step."""
    if not raw:
        encoding = as_text(workflow, key, encoding, codec)
    return decode(codec, workflow, key, encoding)


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
