"""How a value becomes what the store holds, and comes back."""

from __future__ import annotations

import json
from typing import Protocol, TypeVar, runtime_checkable

Encoded = TypeVar("Encoded")


@runtime_checkable
class CheckpointCodec(Protocol[Encoded]):
    """A pair of promises: `decode(encode(v))` is `v`, and equal values have identical encodings.

    The second one decides ties: two passes that came to the same value have both won.
    """

    def encode(self, value: object) -> Encoded:
        """The encoding of `value`. Raises `TypeError` or `ValueError` if it cannot be carried."""
        ...

    def decode(self, encoded: Encoded) -> object:
        """The value of `encoded`. Raises `ValueError` if that is no encoding of this codec."""
        ...


class JsonCodec:
    """The standard library's JSON: readable with `redis-cli`, keys sorted, NaN and infinities refused.

    What JSON gives back as something else (a tuple as a list) comes back as that.
    """

    kind = "json"

    def encode(self, value: object) -> str:
        """JSON text. Raises `TypeError` for what JSON has no form for, `ValueError` for NaN and infinities."""
        return json.dumps(value, sort_keys=True, allow_nan=False)

    def decode(self, encoded: str) -> object:
        """The value of JSON text. Raises `ValueError` if it is not JSON."""
        value: object = json.loads(encoded)
        return value

    def __repr__(self) -> str:
        return "JsonCodec()"


JSON = JsonCodec()
"""The default codec."""
