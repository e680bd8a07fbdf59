"""Durations, values, codecs, names and reply shapes: no server needed."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from enum import Enum, IntEnum, StrEnum
from typing import Any

import pytest
from durably import JSON, CheckpointCodec, LuaEffect, check_duration, check_workflow_id, inbox_key
from durably.durations import check_moment, milliseconds, seconds
from durably.keys import check_id, check_key, check_namespace
from durably.queue_scripts import read_entries, reclaimed_entry, unix_milliseconds, unix_seconds
from durably.records import carry
from durably.signals import Unencodable
from durably.wiring import WiringError, check_wiring, survives
from hypothesis import given
from hypothesis import strategies as st

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(values)
def test_json_gives_back_what_it_was_given(value: Any) -> None:
    assert survives(value, JSON.decode(JSON.encode(value)))


@given(st.dictionaries(st.text(), st.integers()))
def test_equal_values_encode_the_same(value: dict[str, int]) -> None:
    assert JSON.encode(value) == JSON.encode(dict(reversed(value.items())))


def test_codecs_are_checked() -> None:
    assert isinstance(JSON, CheckpointCodec)
    assert repr(JSON) == "JsonCodec()"

    class Numbers:
        def encode(self, value: object) -> int:
            return 1

        def decode(self, encoded: int) -> object:
            return 1

    with pytest.raises(Unencodable, match="neither text nor bytes"):
        carry(Numbers(), "w", "a", 1)


@given(st.timedeltas(min_value=timedelta(microseconds=1), max_value=timedelta(days=999)))
def test_no_positive_duration_becomes_a_zero(duration: timedelta) -> None:
    assert milliseconds(check_duration("d", duration)) >= 1
    assert seconds(duration) >= 1
    assert timedelta(milliseconds=milliseconds(duration)) >= duration


def test_what_is_no_duration_or_moment_is_refused() -> None:
    with pytest.raises(TypeError, match="lease"):
        check_duration("a lease", 5)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        check_moment("a deadline", "now")  # type: ignore[arg-type]
    with pytest.raises(ValueError):
        check_moment("a deadline", datetime(2030, 1, 1))
    with pytest.raises(ValueError):
        inbox_key(-1)


def test_deadlines_are_exact() -> None:
    when = datetime(2026, 1, 2, 3, 4, 5, 678901, timezone.utc)
    assert unix_seconds(when) == "1767323045.678901"
    assert unix_milliseconds(when) == 1767323045679
    assert unix_seconds(datetime(1969, 12, 31, 23, 59, 59, 500000, timezone.utc)) == "-0.500000"


@pytest.mark.parametrize("bad", ["", "a{b}", "x" * 201, "a\nb", "\ud800"[:0] + "tab\t"])
def test_poor_ids_are_refused_where_they_are_minted(bad: str) -> None:
    with pytest.raises(ValueError):
        check_workflow_id(bad)
    with pytest.raises(TypeError):
        check_workflow_id(5)  # type: ignore[arg-type]
    assert check_workflow_id("order-7") == "order-7"


@pytest.mark.parametrize(
    "reply",
    [
        [["s", [("1-1", {"workflow": "w"})]]],
        {"s": [[("1-1", {"workflow": "w"})]]},
        {"s": [("1-1", {"workflow": "w"})]},
        {"s": [["1-1", {"workflow": "w"}]]},
        [["s", [("1-1", {"workflow": "w"}), (None, None)]]],
    ],
)
def test_every_shape_of_a_read_is_understood(reply: Any) -> None:
    assert read_entries(reply) == [("1-1", {"workflow": "w"})]


@pytest.mark.parametrize("reply", [[], {}, None])
def test_every_shape_of_nothing_is_understood(reply: Any) -> None:
    assert read_entries(reply) == []


def test_a_takeovers_reply_is_a_cursor_and_perhaps_an_entry() -> None:
    assert reclaimed_entry(["5-0", "1-1", "workflow", "w"]) == ("5-0", ("1-1", {"workflow": "w"}))
    assert reclaimed_entry(["0-0"]) == ("0-0", None)


class Id(str, Enum):  # noqa: UP042
    """Formatted by name, encoded by value: two texts."""

    A = "order-1"


class Named(StrEnum):
    """One text."""

    A = "order-1"


@pytest.mark.parametrize("check", [check_id, check_key, check_namespace])
def test_a_name_is_one_text_however_it_is_written(check: Any) -> None:
    assert check(Named.A) == "order-1"
    with pytest.raises(TypeError, match="value"):
        check(Id.A)
    with pytest.raises(ValueError, match="UTF-8"):
        check("bad\ud800")
    with pytest.raises(TypeError):
        check(5)


def test_an_effects_arguments_are_plain() -> None:
    class Level(IntEnum):
        HIGH = 7

    args = LuaEffect("return '1'", ("k",), (Id.A, Level.HIGH, 1.5, b"x")).args
    assert args == ("order-1", 7, 1.5, b"x")
    assert [type(one) for one in args] == [str, int, float, bytes]
    for bad in (True, None, [1]):
        with pytest.raises(TypeError):
            LuaEffect("return '1'", ("k",), (bad,))  # type: ignore[arg-type]


def test_a_duration_has_an_end() -> None:
    with pytest.raises(ValueError, match="36500 days"):
        check_duration("ttl", timedelta.max)


def test_wiring_is_checked() -> None:
    assert check_wiring(["a"], {"c": ["b"], "b": ["a"]}, "c") == ("b", "c")
    for inputs, nodes, output in (
        (["a", "a"], {}, "a"),
        (["a"], {"a": []}, "a"),
        ([], {"b": ["x"]}, "b"),
        ([], {"b": ["c"], "c": ["b"]}, "b"),
        ([], {"b": []}, "z"),
        ([], {"": []}, ""),
        ([], {"inbox:1": []}, "inbox:1"),
    ):
        with pytest.raises(WiringError):
            check_wiring(inputs, nodes, output)


def test_survival_is_of_value_and_type_at_every_level() -> None:
    assert survives({"a": [1, {"b": None}]}, {"a": [1, {"b": None}]})
    for before, after in (
        ((1,), [1]),
        (1, True),
        (1, 1.0),
        ({"a": (1,)}, {"a": [1]}),
        ([1], [1, 2]),
        ({1: 2}, {"1": 2}),
    ):
        assert not survives(before, after)
