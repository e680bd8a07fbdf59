"""What the codecs cost: encode and decode as a store does them, side by side. Ours, about ourselves."""

from __future__ import annotations

import argparse
import json
import random
import statistics
import timeit
from pathlib import Path
from typing import Any

import msgspec
from durably import JsonCodec, MsgpackCodec, MsgspecCodec
from durably.records import carry


class Record(msgspec.Struct):
    """The record of the typed rows."""

    id: int
    name: str
    price: float
    tags: list[str]
    active: bool


def record(n: int) -> dict[str, Any]:
    """A record of five fields."""
    return {
        "id": n,
        "name": f"item-{n}",
        "price": n * 1.25,
        "tags": ["a", "b", f"c{n}"],
        "active": n % 2 == 0,
    }


def nested(depth: int, chance: random.Random) -> Any:
    """A nested dict."""
    if depth == 0:
        return record(chance.randrange(1000))
    return {f"key {n}": nested(depth - 1, chance) for n in range(5)}


def typed(value: Any) -> Any:
    """The same with records as Structs."""
    if isinstance(value, dict):
        return Record(**value) if "tags" in value else {key: typed(inner) for key, inner in value.items()}
    return [typed(one) for one in value]


def values() -> dict[str, tuple[Any, Any]]:
    """What is measured: the plain value, and the type that its typed form has."""
    chance = random.Random(1)
    deep: Any = dict[str, dict[str, dict[str, Record]]]
    big = nested(3, chance)
    return {
        "a record of 5 fields": (record(7), Record),
        f"a nested dict of {len(json.dumps(big)) // 1000} KB": (big, deep),
        "a list of records of 1 MB": ([record(n) for n in range(11_000)], list[Record]),
    }


def seconds(codec: Any, value: Any) -> float:
    """One round trip through a store's own path."""
    timer = timeit.Timer(lambda: carry(codec, "w", "a", value, None))
    number = max(1, int(0.02 / max(timer.timeit(1), 1e-7)))
    return timer.timeit(number) / number


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--out", type=Path, default=Path("bench"))
    options = parser.parse_args()
    lines = ["| value | codec | times as fast as `JsonCodec()` | range |", "|---|---|---|---|"]
    for name, (plain, kind) in values().items():
        made = typed(plain) if not isinstance(plain, dict) or "tags" not in plain else Record(**plain)
        codecs: list[tuple[str, Any, Any]] = [
            ("JsonCodec(strict=True)", JsonCodec(strict=True), plain),
            ("MsgspecCodec()", MsgspecCodec(), plain),
            ("MsgspecCodec(trusted=True)", MsgspecCodec(trusted=True), plain),
            ("MsgspecCodec(type)", MsgspecCodec(kind), made),
            ("MsgspecCodec(type, trusted=True)", MsgspecCodec(kind, trusted=True), made),
            ("MsgpackCodec()", MsgpackCodec(), plain),
            ("MsgpackCodec(trusted=True)", MsgpackCodec(trusted=True), plain),
            ("MsgpackCodec(type)", MsgpackCodec(kind), made),
        ]
        ratios: dict[str, list[float]] = {title: [] for title, _, _ in codecs}
        for _ in range(options.rounds):
            base = seconds(JsonCodec(), plain)
            for title, codec, value in codecs:
                ratios[title].append(base / seconds(codec, value))
        for title, found in ratios.items():
            middle = statistics.median(found)
            lines.append(f"| {name} | `{title}` | {middle:.1f} | {min(found):.1f} to {max(found):.1f} |")
    text = "\n".join(lines) + "\n"
    print(text)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "codecs.md").write_text(text)


if __name__ == "__main__":
    main()
