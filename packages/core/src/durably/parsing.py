"""What a pass does with a step's parse: plain values in, typed values out, errors that name the step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from durably.records import is_typed
from durably.signals import Undecodable, Unencodable
from durably.typed import TypedParse
from durably.values import INBOX, Entry


def parsed(codec: object, workflow: str, key: str, parse: Callable[[object], Any], recorded: object) -> Any:
    """`recorded` through `parse`. Raises `Undecodable` naming the step, or what `parse` raises, with a note."""
    if isinstance(parse, TypedParse) and is_typed(codec, key):
        parse = parse.accept
    try:
        return parse(recorded)
    except Undecodable as error:
        raise Undecodable(f"step {key!r} of workflow {workflow!r} is {error}") from None
    except Exception as error:
        error.add_note(f"while parsing step {key!r} of workflow {workflow!r}")
        raise


def plain(codec: object, workflow: str, key: str, parse: Callable[[object], Any], value: object) -> object:
    """What is recorded of a step's value: of a typed step what every codec carries, unless the codec is typed.

    Raises `Unencodable` naming the step for a value that is not of the step's type.
    """
    if not isinstance(parse, TypedParse) or is_typed(codec, key):
        return value
    try:
        return parse.plain(value)
    except Unencodable as error:
        raise Unencodable(
            f"the value of step {key!r} in workflow {workflow!r} is not what its type says: {error}"
        ) from None


def deadline(key: str, recorded: object) -> datetime:
    """The deadline that a sleep recorded. Raises `ValueError` naming the step if it is none."""
    if isinstance(recorded, str):
        try:
            due = datetime.fromisoformat(recorded)
        except ValueError:
            due = None
        if due is not None and due.tzinfo is not None:
            return due
    raise ValueError(f"step {key!r} is recorded as {recorded!r}, which is no sleep's deadline")


def check_reading(after: str | None, limit: int | None) -> None:
    """Raise for a read of the inbox that cannot be: a `limit` below 1 (`ValueError`), an `after` that is no text
    (`TypeError`)."""
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
        raise ValueError(f"limit must be 1 or more, not {limit!r}")
    if after is not None and not isinstance(after, str):
        raise TypeError(f"after must be a message's key, not {after!r}")


def messages(recorded: Mapping[str, object], after: str | None) -> list[Entry[object]]:
    """The inbox's messages among what is recorded, past the key `after`."""
    found = [Entry(key, value) for key, value in recorded.items() if key.startswith(INBOX)]
    return [one for one in found if after is None or one.key > after]
