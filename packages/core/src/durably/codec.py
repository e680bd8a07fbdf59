"""How a value becomes what the store holds, and comes back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Protocol, TypeVar, runtime_checkable

from durably.exact import advice, came_back_untyped, describe, difference, trouble
from durably.signals import Unencodable

Encoded = TypeVar("Encoded")


@runtime_checkable
class CheckpointCodec(Protocol[Encoded]):
    """A pair of promises: `decode(encode(v))` is `v`, and equal values have identical encodings.

    The second one decides ties: two passes that came to the same value have both won. `Encoded` is `str` or `bytes`.
    `durably.testing.check_codec` tries a codec of your own on values of your own. Two methods more are used where a
    codec has them: `carry(value)` gives an encoding and what it decodes to at once, and `for_step(key)` gives the
    codec of one step.
    """

    def encode(self, value: object) -> Encoded:
        """The encoding of `value`. Raises `TypeError` or `ValueError` if it cannot be carried."""
        ...

    def decode(self, encoded: Encoded) -> object:
        """The value of `encoded`. Raises `ValueError` if that is no encoding of this codec."""
        ...


def refuse(codec: object, value: object, back: object) -> Unencodable:
    """The error for a value that came back as something else: where, what, and what would carry it."""
    where = difference(value, back)
    if where is None:
        return Unencodable(f"{codec!r} does not give {describe(value)} back")
    path, before, after = where
    found = trouble(value)
    return Unencodable(
        f"{path} is {describe(before)}, which comes back as {describe(after)} from {codec!r}: "
        f"{advice(before if found is None else found[1])}"
    )


def no_form(codec: object, value: object, error: Exception) -> Unencodable:
    """The error for a value that has no form in a codec's format."""
    if isinstance(error, RecursionError):
        return Unencodable(f"$ is nested too deeply, or holds itself: {codec!r} cannot carry it")
    try:
        found = trouble(value)
    except RecursionError:
        found = None
    if found is None:
        return Unencodable(f"{codec!r} cannot carry {describe(value)}: {error}")
    path, what = found
    return Unencodable(f"{path} is {describe(what)}, which {codec!r} cannot carry: {error}: {advice(what)}")


_encode = json.JSONEncoder(sort_keys=True, allow_nan=False).encode


class JsonCodec:
    """The standard library's JSON: readable with `redis-cli`, keys sorted, NaN and infinities refused.

    What JSON gives back as something else comes back as that (a tuple as a list, the key `1` as `"1"`), unless
    `strict` is set: then it is refused, with the path to it inside the value.
    """

    kind = "json"

    def __init__(self, *, strict: bool = False) -> None:
        self.strict = strict

    def encode(self, value: object) -> str:
        """JSON text. Raises `TypeError` for what JSON has no form for, `ValueError` for NaN and infinities."""
        if self.strict:
            return self.carry(value)[0]
        return _encode(value)

    def decode(self, encoded: str) -> object:
        """The value of JSON text. Raises `ValueError` if it is not JSON."""
        value: object = json.loads(encoded)
        return value

    def carry(self, value: object) -> tuple[str, object]:
        """Both at once. Raises `Unencodable` (strict) for what does not come back equal in value and type."""
        if not self.strict:
            if type(value) is int:
                return repr(value), value
            if value is None or type(value) is bool:
                return _encode(value), value
            text = self.encode(value)
            return text, self.decode(text)
        try:
            text = json.dumps(value, sort_keys=True, allow_nan=False)
            if "\\ud" in text:
                json.dumps(value, ensure_ascii=False).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise no_form(self, value, error) from None
        back = self.decode(text)
        if not came_back_untyped(value, back):
            raise refuse(self, value, back)
        return text, back

    def decode_many(self, encoded: Sequence[str]) -> list[object]:
        """The values of many encodings at once. Raises `ValueError` if one of them is none, `TypeError` for a subclass."""
        if type(self) is not JsonCodec:
            raise TypeError("a codec derived from this one may read in a way of its own")
        values: list[object] = json.loads(f"[{','.join(encoded)}]")
        if len(values) != len(encoded):
            raise ValueError("one of them is no encoding of one value")
        return values

    def __repr__(self) -> str:
        return "JsonCodec(strict=True)" if self.strict else "JsonCodec()"


JSON = JsonCodec()
"""The default codec."""
