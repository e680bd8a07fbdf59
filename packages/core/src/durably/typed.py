"""Types as parses: what a step's result is, checked on the way in and on every replay."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any, Generic, TypeVar, get_origin

import msgspec

from durably.exact import came_back, difference
from durably.signals import Undecodable, Unencodable

T = TypeVar("T")


class TypedParse(Generic[T]):
    """A parse for values of one type, and the way to record them. Made by `as_type`."""

    def __init__(self, type: Any) -> None:
        self.type = type
        self._adapter = _pydantic(type)

    def __call__(self, recorded: object) -> T:
        """What is recorded as a `T`. Raises `Undecodable` (a `ValueError`) with the path to what does not fit."""
        try:
            if self._adapter is not None:
                made: T = self._adapter.validate_python(recorded)
                return made
            return msgspec.convert(recorded, self.type, str_keys=True)  # type: ignore[no-any-return]
        except (TypeError, ValueError) as error:
            raise Undecodable(f"not {self._name}: {error}") from None

    def accept(self, value: object) -> T:
        """What a typed codec gave, which need not be converted. Raises `Undecodable` if it is of another type."""
        if isinstance(self.type, type) and not isinstance(value, self.type):
            raise Undecodable(f"not {self._name}: it is {type(value).__name__}")
        accepted: Any = value
        made: T = accepted
        return made

    def plain(self, value: object) -> object:
        """`value` made of what every codec carries. Raises `Unencodable` if it would not come back from that."""
        try:
            if self._adapter is not None:
                made: object = self._adapter.dump_python(value, mode="json")
            else:
                made = msgspec.to_builtins(value, order="deterministic", str_keys=True)
            back = self(made)
        except (TypeError, ValueError, RecursionError) as error:
            raise Unencodable(f"{error}") from None
        if not came_back(value, made) and difference(value, back) is not None:
            where = difference(value, back)
            assert where is not None
            raise Unencodable(f"{where[0]} is {where[1]!r} and comes back from {self._name} as {where[2]!r}")
        return made

    @property
    def _name(self) -> str:
        return getattr(self.type, "__name__", None) or str(self.type)


def _pydantic(type: Any) -> Any:
    """An adapter for a type of pydantic's, if that is what it is: pydantic is used where it is, never needed."""
    pydantic = sys.modules.get("pydantic")
    if pydantic is None:
        return None
    known = hasattr(type, "__pydantic_core_schema__") or any(
        hasattr(one, "__pydantic_core_schema__") for one in getattr(type, "__args__", ())
    )
    return pydantic.TypeAdapter(type) if known else None


def as_type(type: type[T]) -> TypedParse[T]:
    """A parse for values of `type`: anything msgspec converts to, or a pydantic model where pydantic is installed.

    Raises `TypeError` for a type that neither knows.
    """
    made: TypedParse[T] = TypedParse(type)
    if made._adapter is None:
        msgspec.json.Decoder(type)
        if not _converts(type):
            raise TypeError(f"{type!r} is no type that a recorded value can be converted to")
    return made


_PLAIN = (str, int, float, bool, bytes, list, dict, tuple, set, frozenset)


def _converts(type: Any) -> bool:
    found: Any = msgspec.inspect.type_info(type)
    return not isinstance(found, msgspec.inspect.CustomType)


def parser(parse: Any) -> Callable[[object], Any]:
    """`parse` as it is called: a type that values can be converted to becomes a typed parse, all else stays."""
    if (
        type(parse) is FunctionType
        or isinstance(parse, TypedParse)
        or not (isinstance(parse, type) or get_origin(parse) is not None)
    ):
        call: Callable[[object], Any] = parse
        return call
    try:
        return as_type(parse)
    except TypeError:
        if callable(parse):
            return parse  # type: ignore[no-any-return]
        raise
