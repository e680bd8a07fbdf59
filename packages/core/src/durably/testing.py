"""For tests of your own: whether a codec keeps the promises of `CheckpointCodec`."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

from durably.codec import CheckpointCodec
from durably.exact import difference


def check_codec(codec: CheckpointCodec[Any], values: Iterable[object], *, shuffles: int = 5) -> int:
    """Try `codec` on `values`: each is refused with a `TypeError` or `ValueError`, or comes back equal in value and
    type at every level, with the same encoding however its dicts and sets are ordered. Returns how many were carried.

    `shuffles`: how many other orders are tried. Raises `AssertionError` naming the value, and where it differs. Run it
    under several `PYTHONHASHSEED` and compare `codec.encode` between them, to see that hashes decide nothing.
    """
    carried = 0
    chance = random.Random(0)
    for value in values:
        try:
            encoded = codec.encode(value)
        except (TypeError, ValueError):
            continue
        assert isinstance(encoded, (str, bytes)), f"{codec!r} encodes {value!r} as {type(encoded).__name__}"
        found = difference(value, codec.decode(encoded))
        if found is not None:
            path, before, after = found
            raise AssertionError(f"{codec!r} gives {value!r} back changed at {path}: {before!r} as {after!r}")
        for _ in range(shuffles):
            other = codec.encode(_shuffled(value, chance))
            assert other == encoded, f"{codec!r} encodes {value!r} as {encoded!r} and as {other!r}"
        carried += 1
    return carried


def _shuffled(value: Any, chance: random.Random) -> Any:
    if type(value) is dict:
        items = [(key, _shuffled(inner, chance)) for key, inner in value.items()]
        chance.shuffle(items)
        return dict(items)
    if type(value) in (list, tuple):
        return type(value)(_shuffled(one, chance) for one in value)
    if type(value) in (set, frozenset):
        members = list(value)
        chance.shuffle(members)
        return type(value)(members)
    return value
