"""Values that tests try codecs on: what they carry, and what they must refuse."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from datetime import timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from typing import Any

import msgspec
from hypothesis import strategies as st


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    HIGH = 7


class Name(StrEnum):
    ADA = "ada"


class Line(msgspec.Struct, frozen=True):
    item: str
    price: Decimal
    count: int = 1


@dataclasses.dataclass
class Point:
    x: float
    y: tuple[int, str]


atoms = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.text(st.characters(categories=["Cs", "L"]))
    | st.binary(max_size=8)
    | st.datetimes(timezones=st.none() | st.just(timezone.utc) | st.just(timezone(timedelta(hours=5))))
    | st.decimals()
    | st.uuids()
    | st.sampled_from(
        [Colour.RED, Level.HIGH, Name.ADA, Point(1.0, (1, "a")), Line("a", Decimal("1.10")), ...]
    )
)
plain = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
)


def nested(leaves: st.SearchStrategy[Any], hostile: bool) -> st.SearchStrategy[Any]:
    def more(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        made: Any = st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
        if hostile:
            keys = st.text(max_size=3) | st.integers(0, 3) | st.booleans() | st.just(Name.ADA)
            made = made | st.dictionaries(keys, inner, max_size=4) | st.tuples(inner, inner)
            made = made | st.frozensets(st.integers() | st.text(max_size=3), max_size=4)
            made = made | st.dictionaries(st.text(max_size=3), inner, max_size=3).map(OrderedDict)
        strategy: st.SearchStrategy[Any] = made
        return strategy

    return st.recursive(leaves, more, max_leaves=12)
