"""Whether a value is exactly of a type at every level: not a subclass, not a set for a frozenset.

The check of a type is written once as Python source, as dataclasses write their methods, because it runs for every
value that a typed codec carries. A type with a part that has no exact form (`Any`, a TypedDict) has no such check.
"""

from __future__ import annotations

import datetime
import decimal
import uuid
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import inspect as shapes

_LEAVES: dict[Any, Any] = {
    shapes.NoneType: type(None),
    shapes.BoolType: bool,
    shapes.IntType: int,
    shapes.FloatType: float,
    shapes.StrType: str,
    shapes.BytesType: bytes,
    shapes.DateTimeType: datetime.datetime,
    shapes.DateType: datetime.date,
    shapes.TimeType: datetime.time,
    shapes.TimeDeltaType: datetime.timedelta,
    shapes.UUIDType: uuid.UUID,
    shapes.DecimalType: decimal.Decimal,
}


class _Unknown(Exception):
    """A part of a type that has no exact form."""


class _Writer:
    def __init__(self) -> None:
        self.names: dict[str, Any] = {}
        self.functions: list[str] = []
        self.done: dict[Any, str] = {}

    def name(self, thing: object) -> str:
        """The name of a class in the source."""
        for known, one in self.names.items():
            if one is thing:
                return known
        fresh = f"t{len(self.names)}"
        self.names[fresh] = thing
        return fresh

    def condition(self, info: Any, value: str) -> str:
        """An expression that is true where `value`, an expression, is exactly of the type."""
        if type(info) in _LEAVES:
            return f"type({value}) is {self.name(_LEAVES[type(info)])}"
        if isinstance(info, shapes.EnumType):
            return f"type({value}) is {self.name(info.cls)}"
        if isinstance(info, shapes.UnionType):
            return "(" + " or ".join(self.condition(one, value) for one in info.types) + ")"
        return f"{self.function(info)}({value})"

    def function(self, info: Any) -> str:
        """The name of a function that says whether its argument is exactly of a type with parts."""
        known = getattr(info, "cls", None)
        if known is not None and known in self.done:
            return self.done[known]
        name = f"f{len(self.functions)}"
        self.functions.append("")
        if known is not None:
            self.done[known] = name
        place = len(self.functions) - 1
        self.functions[place] = f"def {name}(v):\n" + "\n".join(f"    {line}" for line in self.lines(info))
        return name

    def lines(self, info: Any) -> list[str]:
        """The body of such a function."""
        fields: Any = getattr(info, "fields", None)
        if isinstance(info, (shapes.StructType, shapes.DataclassType, shapes.NamedTupleType)):
            parts = [self.condition(one.type, f"v.{one.name}") for one in fields]
            return ["return " + " and ".join([f"type(v) is {self.name(info.cls)}", *parts])]
        if isinstance(info, shapes.TupleType):
            parts = [self.condition(one, f"v[{n}]") for n, one in enumerate(info.item_types)]
            return ["return " + " and ".join(["type(v) is tuple", f"len(v) == {len(parts)}", *parts])]
        if isinstance(info, shapes.DictType):
            inner = f"{self.condition(info.key_type, 'k')} and {self.condition(info.value_type, 'x')}"
            return _loop("dict", "k, x", "v.items()", inner)
        kinds = {
            shapes.ListType: "list",
            shapes.SetType: "set",
            shapes.FrozenSetType: "frozenset",
            shapes.VarTupleType: "tuple",
        }
        kind = kinds.get(type(info))
        if kind is None:
            raise _Unknown
        return _loop(kind, "x", "v", self.condition(info.item_type, "x"))


def _loop(kind: str, each: str, over: str, inner: str) -> list[str]:
    return [
        f"if type(v) is not {kind}: return False",
        f"for {each} in {over}:",
        f"    if not ({inner}): return False",
        "return True",
    ]


def exactly(type: Any) -> tuple[Callable[[object], bool], frozenset[Any]] | None:
    """A check whether a value is exactly of `type`, with the classes it knows; `None` for a type that has none."""
    writer = _Writer()
    try:
        condition = writer.condition(msgspec.inspect.type_info(type), "v")
    except (_Unknown, TypeError):
        return None
    source = "\n".join([*writer.functions, f"def check(v):\n    return {condition}"])
    made: dict[str, Any] = dict(writer.names)
    exec(source, made)
    check: Callable[[object], bool] = made["check"]
    return check, frozenset(writer.names.values())
