"""What each durability costs, and `RedisDurable` against `SplitDurable`: alternating runs, medians and ratios. Ours, about ourselves.

A master and a replica on this machine, once without an append-only file and once with `appendfsync always`. Absolute
figures depend on the machine, its disk and what else it does: only ratios of one run mean anything.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import replicated
from durably_redis_async import (
    Durability,
    RedisCheckpointer,
    RedisDurable,
    RedisSetScheduler,
    RedisStreamScheduler,
    SplitDurable,
    claimed,
)
from redis.asyncio import Redis

SIDE_BY_SIDE = 50
Act = Callable[[int], Awaitable[object]]
Figures = dict[str, dict[str, list[float]]]


async def one_by_one(act: Act, count: int) -> float:
    """Milliseconds per call, the median."""
    took = []
    for number in range(count):
        began = time.perf_counter()
        await act(number)
        took.append(time.perf_counter() - began)
    return statistics.median(took) * 1000


async def many_at_once(act: Act, count: int) -> float:
    """Milliseconds per call, where `SIDE_BY_SIDE` callers share the client."""
    numbers = iter(range(count))

    async def caller() -> None:
        for number in numbers:
            await act(number)

    began = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(SIDE_BY_SIDE)))
    return (time.perf_counter() - began) / count * 1000


MEASURES: dict[str, Callable[[Act, int], Awaitable[float]]] = {
    "one by one": one_by_one,
    f"{SIDE_BY_SIDE} at once": many_at_once,
}


async def steps(client: Redis, level: Durability) -> Act:
    """Records of steps at a level."""
    store = RedisCheckpointer(client, f"b{uuid4().hex[:8]}", durability=level)
    await store.prepare()
    holder = await claimed(store, "w", timedelta(hours=1), timedelta(hours=1))

    async def act(number: int) -> object:
        return await store.record(holder, f"s{uuid4().hex}", {"number": number})

    await act(0)
    return act


async def arrivals(client: Redis, split: bool, stream: bool) -> Act:
    """Values that arrive, each for a workflow of its own."""
    namespace = f"b{uuid4().hex[:8]}"
    store = RedisCheckpointer(client, namespace)
    queue: Any = RedisStreamScheduler(client, namespace) if stream else RedisSetScheduler(client, namespace)
    await queue.prepare()
    durable: Any = SplitDurable(store, queue) if split else RedisDurable(store, queue)

    async def act(number: int) -> object:
        return await durable.arrive(f"w{number}-{uuid4().hex}", "go", number)

    await act(0)
    return act


Make = Callable[[], Awaitable[Act]]


def variants(bare: Redis, kept: Redis) -> dict[str, dict[str, Make]]:
    """By group: what is compared, the first of each being what the others are measured against."""
    return {
        "a step": {
            "no file, memory": partial(steps, bare, "memory"),
            "no file, replicas": partial(steps, bare, "replicas"),
            "fsync always, memory": partial(steps, kept, "memory"),
            "fsync always, replicas": partial(steps, kept, "replicas"),
            "fsync always, disk": partial(steps, kept, "disk"),
        },
        "arrive, stream": {
            "SplitDurable": partial(arrivals, bare, True, True),
            "RedisDurable": partial(arrivals, bare, False, True),
        },
        "arrive, set": {
            "SplitDurable": partial(arrivals, bare, True, False),
            "RedisDurable": partial(arrivals, bare, False, False),
        },
    }


async def measure(bare_url: str, kept_url: str, rounds: int, count: int) -> Figures:
    """Milliseconds by measure and variant, one figure a round."""
    bare: Redis = Redis.from_url(bare_url, decode_responses=True)
    kept: Redis = Redis.from_url(kept_url, decode_responses=True)
    found: Figures = defaultdict(lambda: defaultdict(list))
    for turn in range(rounds):
        for group, compared in variants(bare, kept).items():
            for name, measured in MEASURES.items():
                order = list(compared.items())
                for variant, make in order if turn % 2 else order[::-1]:
                    found[f"{group}, {name}"][variant].append(await measured(await make(), count))
        await bare.flushall()
        await kept.flushall()
    await bare.aclose()
    await kept.aclose()
    return found


def table(found: Figures) -> str:
    """Markdown: medians with their range, and the ratio to each group's base."""
    lines = ["| measure | variant | ms a call | range | ratio |", "|---|---|---|---|---|"]
    for what, by in found.items():
        base = "SplitDurable" if "SplitDurable" in by else "no file, memory"
        compared = statistics.median(by[base])
        for variant in sorted(by, key=lambda one: (one != base, one)):
            values = by[variant]
            middle = statistics.median(values)
            lines.append(
                f"| {what} | {variant} | {middle:.3g} | {min(values):.3g} to {max(values):.3g} "
                f"| {middle / compared:.2f} |"
            )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7, help="alternating runs of each (default 7)")
    parser.add_argument("--count", type=int, default=500, help="calls per run (default 500)")
    parser.add_argument("--server", default="embedded", help="a name in tests/servers.py")
    parser.add_argument("--out", type=Path, default=Path("bench"), help="where the table is written")
    options = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        bare = stack.enter_context(
            replicated.start(options.server, folder / "bare", options=("--appendonly", "no"))
        )
        kept = stack.enter_context(replicated.start(options.server, folder / "kept"))
        found = asyncio.run(measure(bare.url, kept.url, options.rounds, options.count))
    text = table(found)
    print(text)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "durability.md").write_text(text + "\n")
    (options.out / "durability.json").write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
