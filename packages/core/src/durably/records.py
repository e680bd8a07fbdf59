"""The wire format of a record: `<position>:<server ms>:<encoding>`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from durably.codec import CheckpointCodec
from durably.signals import Undecodable, Unencodable

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True, slots=True)
class Stored:
    """One hash field, taken apart. `at` is the server's time of the write, in ms."""

    position: int
    at: int
    encoding: str

    @property
    def written(self) -> datetime:
        """The time of the write, aware, UTC."""
        return _EPOCH + timedelta(milliseconds=self.at)


def parse_stored(workflow: str, key: str, text: str) -> Stored:
    """Take a field apart, or raise `Undecodable` naming workflow and step."""
    position, first, rest = text.partition(":")
    at, second, encoding = rest.partition(":")
    if not (first and second and position.isdecimal() and at.isdecimal()):
        raise Undecodable(f"step {key!r} of workflow {workflow!r} holds no record: {text[:80]!r}")
    return Stored(int(position), int(at), encoding)


def in_order(workflow: str, fields: Mapping[str, str]) -> list[tuple[str, Stored]]:
    """All fields of a workflow, in the order in which they were first recorded."""
    parsed = [(key, parse_stored(workflow, key, text)) for key, text in fields.items()]
    parsed.sort(key=lambda one: (one[1].position, one[1].at))
    return parsed


def encode(codec: CheckpointCodec[str], workflow: str, key: str, value: object) -> str:
    """The encoding of `value`, or `Unencodable` naming workflow and step. Nothing has been written by then."""
    try:
        encoding: Any = codec.encode(value)
        text_ok = isinstance(encoding, str)
        if text_ok:
            encoding.encode("utf-8")
    except (TypeError, ValueError, RecursionError) as error:
        raise Unencodable(
            f"the value of step {key!r} in workflow {workflow!r} cannot be recorded with {codec!r}: "
            f"{type(value).__name__}: {error}"
        ) from error
    if not text_ok:
        raise Unencodable(
            f"{codec!r} gave {type(encoding).__name__}, not text, for step {key!r} of {workflow!r}"
        )
    assert isinstance(encoding, str)
    return encoding


def decode(codec: CheckpointCodec[str], workflow: str, key: str, encoding: str) -> object:
    """The value of `encoding`, or `Undecodable` naming workflow and step."""
    try:
        return codec.decode(encoding)
    except (TypeError, ValueError, RecursionError) as error:
        raise Undecodable(
            f"the record of step {key!r} in workflow {workflow!r} cannot be read with {codec!r}: "
            f"{error}: {encoding[:80]!r}"
        ) from error
