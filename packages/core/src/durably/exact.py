"""Whether a value came back as it went: equal in value and in type, at every level. And if not, where."""

from __future__ import annotations

import dataclasses
import marshal
import math
from collections.abc import Iterator
from datetime import datetime, time
from decimal import Decimal
from typing import Any

import msgspec

_ATOMS = (type(None), bool, int, str, bytes)


def difference(before: object, after: object, path: str = "$") -> tuple[str, object, object] | None:
    """The first place where the two differ, as `(path, before, after)`; `None` where they are the same.

    Moments must have the same offset, decimals the same digits, zeros the same sign. A value that is not equal to
    itself (NaN) is the same as nothing.
    """
    kind = type(before)
    if kind is not type(after):
        return path, before, after
    if kind in _ATOMS:
        return None if before == after else (path, before, after)
    if isinstance(before, dict):
        return _in_dicts(before, after, path)
    if isinstance(before, (list, tuple)):
        return _in_sequences(before, after, path)
    if isinstance(before, (set, frozenset)):
        return _in_sets(before, after, path)
    parts = list(_parts(before))
    if parts:
        for name, part in parts:
            found = difference(part, getattr(after, name), f"{path}.{name}")
            if found is not None:
                return found
        return None
    return None if _same_leaf(before, after) else (path, before, after)


def _in_dicts(before: Any, after: Any, path: str) -> tuple[str, object, object] | None:
    keys = {key: key for key in after}
    for key, value in before.items():
        if key not in keys or type(keys[key]) is not type(key):
            return f"{path} (key {key!r})", key, keys.get(key)
        step = f".{key}" if isinstance(key, str) and key.isidentifier() else f"[{key!r}]"
        found = difference(value, after[key], path + step)
        if found is not None:
            return found
    return None if len(before) == len(after) else (path, before, after)


def _in_sequences(before: Any, after: Any, path: str) -> tuple[str, object, object] | None:
    if len(before) != len(after):
        return path, before, after
    for n, (one, other) in enumerate(zip(before, after, strict=True)):
        found = difference(one, other, f"{path}[{n}]")
        if found is not None:
            return found
    return None


def _in_sets(before: Any, after: Any, path: str) -> tuple[str, object, object] | None:
    members = {one: one for one in after}
    for one in before:
        if one not in members or difference(one, members[one]) is not None:
            return f"{path}{{{one!r}}}", one, members.get(one)
    return None if len(before) == len(after) else (path, before, after)


def _parts(value: object) -> Iterator[tuple[str, object]]:
    if isinstance(value, msgspec.Struct):
        names: Any = value.__struct_fields__
    elif dataclasses.is_dataclass(value):
        names = [one.name for one in dataclasses.fields(value) if one.init]
    else:
        names = [one.name for one in getattr(type(value), "__attrs_attrs__", ())]
    for name in names:
        yield name, getattr(value, name)


def _same_leaf(before: Any, after: Any) -> bool:
    if isinstance(before, float):
        return bool(before == after) and math.copysign(1.0, before) == math.copysign(1.0, after)
    if isinstance(before, Decimal):
        return before.as_tuple() == after.as_tuple() and not before.is_nan()
    if isinstance(before, (datetime, time)):
        return bool(before == after) and before.utcoffset() == after.utcoffset()
    return bool(before == after)


def came_back(before: object, after: object) -> bool:
    """Whether the two are the same, as `difference` has it."""
    return difference(before, after) is None


def came_back_untyped(before: object, after: object) -> bool:
    """The same, quickly, for what a decoder gives that knows no types: it takes no number for a truth value or for
    another kind of number, so what is equal and made of built-in types alone is the same."""
    exact: Any = before
    try:
        if before != after:
            return False
        marshal.dumps(exact, 4)  # refuses everything that is not exactly of a built-in type
    except (ValueError, TypeError, RecursionError):
        return difference(before, after) is None
    return True


def describe(value: object) -> str:
    """A value in an error: its type, and itself if it is short."""
    text = repr(value)
    return f"{type(value).__name__} {text}" if len(text) <= 60 else f"{type(value).__name__} {text[:57]}..."


def advice(value: object) -> str:
    """Which codec or type would carry a value that an untyped codec cannot."""
    if isinstance(value, float):
        return "no codec carries it: record it as text, or as None"
    if isinstance(value, str):
        return "no codec carries it: it has no UTF-8 encoding"
    if isinstance(value, (bytes, bytearray)):
        return "MsgpackCodec() carries bytes; so does MsgspecCodec(type=...) with bytes in the type"
    if type(value).__module__ == "builtins" and not isinstance(value, (tuple, set, frozenset)):
        return "record it as one of dict with text keys, list, str, int, float, bool and None"
    return "give the type: MsgspecCodec(type=...) for the codec, or as the step's parse"


def trouble(value: object, path: str = "$") -> tuple[str, object] | None:
    """The first thing in `value` that untyped JSON has no form for, with its path; `None` if there is none."""
    if isinstance(value, float) and not math.isfinite(value):
        return path, value
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return path, value
    if type(value) in (type(None), bool, int, float, str):
        return None
    if type(value) is dict:
        for key, inner in value.items():
            if type(key) is not str or trouble(key) is not None:
                return f"{path} (key {key!r})", key
            found = trouble(inner, f"{path}.{key}" if key.isidentifier() else f"{path}[{key!r}]")
            if found is not None:
                return found
        return None
    if type(value) is list:
        for n, inner in enumerate(value):
            found = trouble(inner, f"{path}[{n}]")
            if found is not None:
                return found
        return None
    return path, value
