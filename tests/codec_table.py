"""The table of what each codec carries, made by trying it: `python tests/codec_table.py` writes it into the docs."""

from __future__ import annotations

import dataclasses
import sys
import uuid
from collections import OrderedDict
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum, StrEnum
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from durably import JsonCodec, MsgpackCodec, MsgspecCodec
from durably.exact import difference

PAGE = Path(__file__).parents[1] / "docs" / "codecs.md"
BEGIN, END = "<!-- table: begin -->", "<!-- table: end -->"


class Colour(Enum):
    RED = "red"


class Name(StrEnum):
    ADA = "ada"


class Receipt(msgspec.Struct):
    amount: int


@dataclasses.dataclass
class Point:
    x: float


class Pair(NamedTuple):
    left: int
    right: int


MOMENT = datetime(2026, 1, 1, 12, tzinfo=timezone(timedelta(hours=5)))
ROWS: list[tuple[str, Any, Any]] = [
    ("`None`, `bool`, `str`", [None, True, "é"], list[Any]),
    ("`int` of any size", 2**200, int),
    ("`int` of 64 bits", -(2**63), int),
    ("`float`", 1.5, float),
    ("NaN", float("nan"), float),
    ("infinity", float("inf"), float),
    ("`list`, `dict` with text keys", {"a": [1, {"b": []}]}, dict[str, list[Any]]),
    ("`dict` with other keys", {1: "a"}, dict[int, str]),
    ("`tuple`", (1, "a"), tuple[int, str]),
    ("`set`, `frozenset`", {1, 2}, set[int]),
    ("`bytes`", b"\x00\xff", bytes),
    ("`datetime` with its offset", MOMENT, datetime),
    ("`date`", date(2026, 1, 1), date),
    ("`timedelta`", timedelta(days=1, microseconds=5), timedelta),
    ("`Decimal` with its digits", Decimal("1.10"), Decimal),
    ("`UUID`", uuid.UUID(int=5), uuid.UUID),
    ("`Enum`", Colour.RED, Colour),
    ("`StrEnum`", Name.ADA, Name),
    ("msgspec `Struct`", Receipt(5), Receipt),
    ("dataclass, attrs class", Point(1.5), Point),
    ("`NamedTuple`", Pair(1, 2), Pair),
    ("`OrderedDict` and other subclasses", OrderedDict(a=1), OrderedDict),
    ("text that has no UTF-8 encoding", "\ud800", str),
]


def carries(make: Any, value: Any) -> str:
    """`yes`, `refused`, or `changed` where the value comes back as something else without a word."""
    try:
        codec = make()
        back = codec.decode(codec.encode(value))
    except (TypeError, ValueError):
        return "refused"
    return "yes" if difference(value, back) is None else "changed"


def table() -> str:
    """The table, in Markdown."""
    heads = ["`JsonCodec()`", "`JsonCodec(strict=True)`", "`MsgspecCodec()`", "`MsgpackCodec()`"]
    heads += ["`MsgspecCodec(type)`", "`MsgpackCodec(type)`"]
    lines = ["| value | " + " | ".join(heads) + " |", "|---" * (len(heads) + 1) + "|"]
    for name, value, kind in ROWS:
        makes: list[Any] = [
            JsonCodec,
            lambda: JsonCodec(strict=True),
            MsgspecCodec,
            MsgpackCodec,
            lambda kind=kind: MsgspecCodec(kind),
            lambda kind=kind: MsgpackCodec(kind),
        ]
        lines.append(f"| {name} | " + " | ".join(carries(make, value) for make in makes) + " |")
    return "\n".join(lines)


def in_page() -> str:
    """The table that the page shows."""
    return PAGE.read_text().split(BEGIN)[1].split(END)[0].strip()


if __name__ == "__main__":
    before, rest = PAGE.read_text().split(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n\n{table()}\n\n{END}{rest.split(END)[1]}")
    sys.stdout.write(table() + "\n")
