"""Codecs built on msgspec: JSON text and MessagePack bytes. Fast, and typed where a type is given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar, Generic, TypeVar

import msgspec

from durably.codec import no_form, refuse
from durably.exact import came_back_untyped, difference
from durably.signals import Unencodable
from durably.type_check import exactly

Encoded = TypeVar("Encoded", str, bytes)

_ORDER: Any = "deterministic"

MARK = b"\xc1"
"""What a MessagePack record begins with: a byte that neither MessagePack nor text uses."""


class _Codec(Generic[Encoded]):
    _loses: ClassVar[frozenset[Any]] = frozenset()

    def __init__(
        self, type: Any = Any, *, steps: Mapping[str, Any] | None = None, trusted: bool = False
    ) -> None:
        self.type = type
        self.trusted = trusted
        found = None if type is Any else exactly(type)
        self._exactly = None if found is None or self._loses & found[1] else found[0]
        self.steps: dict[str, Any] = {
            key: self.__class__(one, trusted=trusted) for key, one in (steps or {}).items()
        }

    def for_step(self, key: str) -> _Codec[Encoded]:
        """The codec of the step `key`: its own from `steps`, or this one."""
        one: _Codec[Encoded] = self.steps.get(key, self)
        return one

    def encode(self, value: object) -> Encoded:
        """The encoding of `value`. Raises `Unencodable` for what does not come back equal in value and type."""
        return self.carry(value)[0]

    def decode(self, encoded: Encoded) -> object:
        """The value of `encoded`. Raises `ValueError` if it is no encoding of this codec, or not of the type."""
        return self._load(encoded)

    def carry(self, value: object) -> tuple[Encoded, object]:
        """Both at once. With `trusted`, what came back is not compared with what went."""
        try:
            encoded = self._dump(value)
            back = self._load(encoded)
            if not (self.trusted or self._same(value, back, encoded)):
                encoded = self._dump_plainly(value)
                back = self._load(encoded)
                if difference(value, back) is not None:
                    raise refuse(self, value, back)
        except Unencodable:
            raise
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise no_form(self, value, error) from None
        return encoded, back

    def decode_many(self, encoded: Sequence[Encoded]) -> list[object]:
        """The values of many encodings at once. Raises `TypeError` for a typed codec, `ValueError` if one is none."""
        if self.type is not Any or self.steps:
            raise TypeError("values of several types are decoded one by one")
        values: Any = self._load_many(encoded)
        if len(values) != len(encoded):
            raise ValueError("one of them is no encoding of one value")
        made: list[object] = values
        return made

    def _load_many(self, encoded: Sequence[Encoded]) -> object:
        raise NotImplementedError

    def _same(self, value: object, back: object, encoded: Encoded) -> bool:
        if self.type is Any:
            return came_back_untyped(value, back)
        if self._exactly is None:
            return difference(value, back) is None
        # equal, exactly of the type, and encoded alike: offsets, digits and signs are in the encoding
        return bool(value == back) and self._exactly(value) and self._dump(back) == encoded

    def _dump_plainly(self, value: object) -> Encoded:
        return self._dump(value)

    def _dump(self, value: object) -> Encoded:
        raise NotImplementedError

    def _load(self, encoded: Encoded) -> object:
        raise NotImplementedError

    def __repr__(self) -> str:
        words = [] if self.type is Any else [f"type={getattr(self.type, '__name__', self.type)}"]
        words += [f"steps={list(self.steps)}"] if self.steps else []
        words += ["trusted=True"] if self.trusted else []
        return f"{type(self).__name__}({', '.join(words)})"


class MsgspecCodec(_Codec[str]):
    """JSON text, several times as fast as the standard library's, readable with `redis-cli`.

    Untyped it carries what JSON gives back: dicts with text keys, lists, text, numbers, booleans and `None`. With
    `type` (a Struct, dataclass, attrs class, NamedTuple, Enum, datetime, Decimal, UUID, set, tuple, a union of tagged
    Structs, or any type made of these) it carries values of that type; with `steps`, a mapping of step names to types,
    each step its own. Everything else is refused with the path to it. `trusted`: leave that comparison out, for values
    known to be plain; then msgspec's own reshaping (a tuple as a list, NaN as `None`) is silent.
    """

    kind = "json"

    def __init__(
        self, type: Any = Any, *, steps: Mapping[str, Any] | None = None, trusted: bool = False
    ) -> None:
        super().__init__(type, steps=steps, trusted=trusted)
        self._encoder = msgspec.json.Encoder(order=_ORDER)
        self._decoder: Any = msgspec.json.Decoder(type)

    def _dump(self, value: object) -> str:
        try:
            return self._encoder.encode(value).decode()
        except TypeError:  # keys that are no text, where the type has such
            plain = msgspec.to_builtins(value, order=_ORDER, str_keys=True)
            return self._encoder.encode(plain).decode()

    def _load(self, encoded: str) -> object:
        back: object = self._decoder.decode(encoded)
        return back

    def _load_many(self, encoded: Sequence[str]) -> object:
        return self._load(f"[{','.join(encoded)}]")


class MsgpackCodec(_Codec[bytes]):
    """MessagePack bytes: compact. Carries bytes, too; otherwise as `MsgspecCodec`, with integers of 64 bits.

    A store with it works with a client of either `decode_responses`. An effect may return `cmsgpack.pack(...)`.
    """

    kind = "msgpack"
    _loses = frozenset({datetime})  # the format's own form of a moment has no offset

    def __init__(
        self, type: Any = Any, *, steps: Mapping[str, Any] | None = None, trusted: bool = False
    ) -> None:
        super().__init__(type, steps=steps, trusted=trusted)
        self._encoder = msgspec.msgpack.Encoder(order=_ORDER)
        self._decoder: Any = msgspec.msgpack.Decoder(type)

    def _dump(self, value: object) -> bytes:
        try:
            return MARK + self._encoder.encode(value)
        except TypeError:  # keys that are no text
            plain = msgspec.to_builtins(value, order=_ORDER, builtin_types=(bytes, datetime))
            return MARK + msgspec.msgpack.encode(plain)

    def _dump_plainly(self, value: object) -> bytes:
        if self.type is Any:
            return self._dump(value)
        # a moment as text keeps its offset, which MessagePack's own form of it does not
        plain = msgspec.to_builtins(value, order=_ORDER, builtin_types=(bytes,))
        return MARK + msgspec.msgpack.encode(plain)

    def _load(self, encoded: bytes) -> object:
        if encoded[:1] != MARK:
            raise ValueError("it was not written by MsgpackCodec")
        back: object = self._decoder.decode(memoryview(encoded)[1:])
        return back

    def _load_many(self, encoded: Sequence[bytes]) -> object:
        if not all(one[:1] == MARK for one in encoded):
            raise ValueError("one of them was not written by MsgpackCodec")
        head = MARK + b"\xdd" + len(encoded).to_bytes(4, "big")
        return self._load(head + b"".join([one[1:] for one in encoded]))
