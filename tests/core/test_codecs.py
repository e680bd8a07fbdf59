"""The codecs' two promises: a value is refused or comes back the same, and the same value has the same encoding."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections import OrderedDict
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import attrs
import msgspec
import pytest
from durably import JSON, CheckpointCodec, JsonCodec, MsgpackCodec, MsgspecCodec, Unencodable, as_type
from durably.exact import came_back, difference
from durably.signals import Undecodable
from durably.testing import check_codec
from durably.typed import TypedParse, parser
from hypothesis import given, settings
from values import Colour, Level, Line, Name, Point, atoms, nested, plain

STRICT: dict[str, CheckpointCodec[Any]] = {
    "JsonCodec strict": JsonCodec(strict=True),
    "MsgspecCodec": MsgspecCodec(),
    "MsgpackCodec": MsgpackCodec(),
}


class Receipt(msgspec.Struct):
    lines: list[Line]
    at: datetime
    tags: frozenset[str] = frozenset()
    ratio: float = 0.5


@attrs.define
class Box:
    width: int
    colour: Colour


class Pair(NamedTuple):
    left: bytes
    right: uuid.UUID


class Cat(msgspec.Struct, tag=True):
    lives: int


class Dog(msgspec.Struct, tag=True):
    name: str


@pytest.mark.parametrize("name", list(STRICT))
def test_any_value_is_refused_or_comes_back_the_same(name: str) -> None:
    codec = STRICT[name]
    carried = 0

    @settings(max_examples=1500, deadline=None, derandomize=True, database=None)
    @given(nested(atoms, hostile=True))
    def holds(value: Any) -> None:
        nonlocal carried
        carried += check_codec(codec, [value], shuffles=2)
        try:
            codec.encode(value)
        except Unencodable as error:
            assert "$" in str(error) or "carry" in str(error)

    holds()
    assert carried > 100


@pytest.mark.parametrize("name", list(STRICT))
def test_what_json_gives_back_is_carried(name: str) -> None:
    codec = STRICT[name]
    small = MsgpackCodec in type(codec).__mro__

    @settings(max_examples=1000, deadline=None, derandomize=True, database=None)
    @given(nested(plain, hostile=False))
    def holds(value: Any) -> None:
        if small and not _fits(value):
            return
        assert check_codec(codec, [value], shuffles=2) == 1
        if isinstance(codec, MsgspecCodec):
            assert json.loads(codec.encode(value)) == value

    holds()


def _fits(value: Any) -> bool:
    if isinstance(value, int):
        return -(2**63) <= value < 2**64
    if isinstance(value, dict):
        return all(map(_fits, value.values()))
    return all(map(_fits, value)) if isinstance(value, list) else True


TYPED: list[tuple[Any, Any]] = [
    (
        Receipt,
        Receipt([Line("a", Decimal("1.10"))], datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=5)))),
    ),
    (Point, Point(1.5, (1, "a"))),
    (Box, Box(3, Colour.RED)),
    (Pair, Pair(b"\x00\xff", uuid.UUID(int=7))),
    (Colour, Colour.RED),
    (Level, Level.HIGH),
    (Name, Name.ADA),
    (datetime, datetime(2026, 1, 1, 12, 30, 1, 5, timezone(timedelta(hours=-3)))),
    (datetime, datetime(2026, 1, 1)),
    (date, date(2026, 1, 1)),
    (time, time(12, 30)),
    (timedelta, timedelta(days=3, microseconds=7)),
    (uuid.UUID, uuid.UUID(int=5)),
    (Decimal, Decimal("1.100")),
    (bytes, b"\x00\xff"),
    (set[int], {3, 1, 2}),
    (frozenset[str], frozenset("abc")),
    (tuple[int, ...], (1, 2)),
    (dict[int, str], {2: "b", 1: "a"}),
    (dict[uuid.UUID, int], {uuid.UUID(int=5): 1}),
    (Cat | Dog, Dog("rex")),
    (list[Cat | Dog], [Cat(9), Dog("rex")]),
]


@pytest.mark.parametrize("codec", [MsgspecCodec, MsgpackCodec])
@pytest.mark.parametrize(
    ("type", "value"), TYPED, ids=[f"{t}"[:40] + str(n) for n, (t, _) in enumerate(TYPED)]
)
def test_a_type_carries_its_values(codec: Any, type: Any, value: Any) -> None:
    assert check_codec(codec(type), [value]) == 1
    assert check_codec(codec(steps={"a": type}).for_step("a"), [value]) == 1


@pytest.mark.parametrize("codec", [MsgspecCodec, MsgpackCodec])
@pytest.mark.parametrize(
    ("type", "value", "path"),
    [
        (Point, Point(1, (1, "a")), "$.x"),  # an integer where the type has a float
        (Receipt, Receipt([Line("a", Decimal("NaN"))], datetime(2026, 1, 1)), "$.lines[0].price"),
        (Receipt, Receipt([], datetime(2026, 1, 1), {"a"}), "$.tags"),  # type: ignore[arg-type]
        (Receipt, Receipt([], datetime(2026, 1, 1), ratio=float("nan")), "$.ratio"),
        (list[str], ["a", Name.ADA], "$[1]"),
        (tuple[bytes, uuid.UUID], Pair(b"a", uuid.UUID(int=1)), "$"),
        (dict[str, int], OrderedDict(a=1), "$"),
        (bytes, bytearray(b"a"), "$"),
    ],
)
def test_what_is_not_of_the_type_is_refused_with_its_path(
    codec: Any, type: Any, value: Any, path: str
) -> None:
    with pytest.raises(Unencodable) as caught:
        codec(type).encode(value)
    assert f"{path} " in str(caught.value) or f"`{path}`" in str(caught.value)


@pytest.mark.parametrize("name", list(STRICT))
@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"lines": [{"price": float("nan")}]}, "$.lines[0].price"),
        ({"lines": [1, (1, 2)]}, "$.lines[1]"),
        ({"a": {"b": {1, 2}}}, "$.a.b"),
        ([{"a": object()}], "$[0].a"),
        ({"x y": ["\ud800"]}, "$['x y'][0]"),
        ({"a": Level.HIGH}, "$.a"),
        ({"a": Name.ADA}, "$.a"),
        ({"a": OrderedDict(b=1)}, "$.a"),
        ({"a": Decimal(1)}, "$.a"),
    ],
)
def test_a_refusal_names_the_path_and_what_would_carry_it(name: str, value: Any, path: str) -> None:
    with pytest.raises(Unencodable) as caught:
        STRICT[name].encode(value)
    assert f"{path} " in str(caught.value), caught.value
    assert "carry" in str(caught.value) or "comes back" in str(caught.value)


@pytest.mark.parametrize("value", [{1: "a"}, {1: "a", "1": "b"}, {True: 1}, {None: 1}, {1.5: 2}])
def test_keys_that_are_no_text_are_refused_by_json(value: Any) -> None:
    for codec in (JsonCodec(strict=True), MsgspecCodec()):
        with pytest.raises(Unencodable, match="key"):
            codec.encode(value)


def test_infinities_and_large_integers() -> None:
    for codec in (JsonCodec(strict=True), MsgspecCodec()):
        with pytest.raises(Unencodable):
            codec.encode(float("inf"))
        assert codec.decode(codec.encode(2**200)) == 2**200
    assert MsgpackCodec().decode(MsgpackCodec().encode(float("inf"))) == float("inf")
    with pytest.raises(Unencodable):
        MsgpackCodec().encode(2**64)


def test_what_holds_itself_is_refused() -> None:
    value: list[Any] = []
    value.append(value)
    for codec in STRICT.values():
        with pytest.raises(Unencodable):
            codec.encode(value)


def test_the_default_codec_stays_as_lenient_as_its_format() -> None:
    assert JSON.decode(JSON.encode((1, {2: 3}))) == [1, {"2": 3}]
    assert MsgspecCodec(trusted=True).decode(MsgspecCodec(trusted=True).encode((1, 2))) == [1, 2]


def test_bytes_of_another_codec_are_no_encoding() -> None:
    for encoded in (b"{}", b"", b"\x81\xa1a\x01"):
        with pytest.raises(ValueError):
            MsgpackCodec().decode(encoded)


SEEDED = """
import sys
from datetime import date
from durably import MsgspecCodec, MsgpackCodec, JsonCodec
value = {f"k{n}": {"x": n, "a": [n, {"z": 1, "b": 2}]} for n in range(40)}
sets = {f"m{n}" for n in range(60)}
print(JsonCodec(strict=True).encode(value))
print(MsgspecCodec().encode(value))
print(MsgpackCodec().encode(value).hex())
print(MsgspecCodec(set[str]).encode(sets))
print(MsgpackCodec(frozenset[str]).encode(frozenset(sets)).hex())
print(MsgspecCodec(dict[int, set[str]]).encode({1: sets, 0: sets}))
"""


def test_hashes_decide_nothing() -> None:
    said = {
        subprocess.run(
            [sys.executable, "-c", SEEDED],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in (1, 2, 3)
    }
    assert len(said) == 1


def test_difference_names_the_first_place() -> None:
    assert difference({"a": [1, 2]}, {"a": [1, 2]}) is None
    assert difference({"a": [1, 2]}, {"a": [1, 3]}) == ("$.a[1]", 2, 3)
    assert difference({"a": 1}, {}) == ("$ (key 'a')", "a", None)
    assert difference([1], [1, 2]) == ("$", [1], [1, 2])
    assert difference({}, {"a": 1}) == ("$", {}, {"a": 1})
    assert difference({1, 2}, {1, 3}) == ("${2}", 2, None)
    assert difference({1}, {1, 3}) == ("$", {1}, {1, 3})
    assert difference(0.0, -0.0) is not None and not came_back([True], [1])
    assert difference(Decimal("1.0"), Decimal("1.00")) is not None


class Wrong:
    """Gives lists for tuples, and says the same of both orders."""

    def encode(self, value: object) -> str:
        return json.dumps(value)

    def decode(self, encoded: str) -> object:
        value: object = json.loads(encoded)
        return value


def test_a_codec_that_breaks_a_promise_is_found() -> None:
    with pytest.raises(AssertionError, match=r"changed at \$\[0\]"):
        check_codec(Wrong(), [[(1, 2)]])
    with pytest.raises(AssertionError, match="and as"):
        check_codec(Wrong(), [{"a": 1, "b": 2, "c": 3}], shuffles=20)
    assert check_codec(Wrong(), [object(), 1]) == 1


class Model(msgspec.Struct):
    name: str
    when: datetime


def test_a_type_as_a_parse() -> None:
    parse = as_type(Model)
    value = Model("a", datetime(2026, 1, 1, tzinfo=timezone.utc))
    assert parse(parse.plain(value)) == value
    assert parse({"name": "a", "when": "2026-01-01T00:00:00Z"}) == value
    with pytest.raises(Undecodable, match=r"Model.*\$\.name"):
        parse({"name": 5, "when": "2026-01-01T00:00:00Z"})
    with pytest.raises(Unencodable, match=r"\$\.name"):
        parse.plain({"name": 5, "when": "2026-01-01T00:00:00Z"})
    with pytest.raises(TypeError, match="Path"):
        from pathlib import Path

        as_type(Path)
    assert as_type(list[int])([1]) == [1]
    keyed = as_type(dict[int, str])
    assert keyed(keyed.plain({1: "a"})) == {1: "a"}


def test_a_parse_that_is_a_type_is_one_and_a_function_stays() -> None:
    def own(value: object) -> int:
        return 1

    class Callable2:
        def __init__(self, value: object) -> None:
            self.value = value

    assert parser(own) is own
    assert isinstance(parser(int), TypedParse) and isinstance(parser(list[int]), TypedParse)
    assert parser(Callable2) is Callable2
    with pytest.raises(Undecodable):
        parser(int)("5")


def test_pydantic_models_where_there_are_any() -> None:
    pydantic = pytest.importorskip("pydantic")

    class Order(pydantic.BaseModel):  # type: ignore[name-defined, misc]
        name: str
        at: datetime

    parse = as_type(Order)
    value = Order(name="a", at=datetime(2026, 1, 1, tzinfo=timezone.utc))
    assert parse.plain(value) == {"name": "a", "at": "2026-01-01T00:00:00Z"}
    assert parse(parse.plain(value)) == value
    with pytest.raises(Undecodable, match="Order"):
        parse({"name": 5})


def test_the_table_in_the_docs_is_what_the_codecs_do() -> None:
    import codec_table

    if codec_table.PAGE.exists():
        assert codec_table.in_page() == codec_table.table(), "run python tests/codec_table.py"
    for name, value, kind in codec_table.ROWS:
        for make in (lambda: JsonCodec(strict=True), MsgspecCodec, lambda kind=kind: MsgspecCodec(kind)):
            assert codec_table.carries(make, value) != "changed", name


def test_the_codec_that_the_docs_show_keeps_the_promises() -> None:
    place = Path(__file__).parents[2] / "docs" / "examples" / "zstd_codec.py"
    shown: dict[str, Any] = {}
    exec(place.read_text(), shown)
    values: list[Any] = [{"a": [1, "é" * 500]}, None, [], "x" * 10_000]
    assert check_codec(shown["ZstdCodec"](), values) == len(values)
    assert len(shown["ZstdCodec"]().encode(values[3])) < 100
