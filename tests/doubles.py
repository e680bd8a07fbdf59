"""Which in-process engines can stand in for a server in unit tests: the scenarios of both flavours over each.

`nox -s doubles` installs the engines. Run alone: `python tests/doubles.py [--write] [ENGINE...]`. It compares what it
saw with the table in `docs/testing.md`, and fails where they differ; `--write` puts the table there instead.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import os
import re
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from durably import embedded
from durably.lua import read_script

PAGE = Path(__file__).parents[1] / "docs" / "testing.md"
BEGIN, END = "<!-- doubles: begin -->", "<!-- doubles: end -->"
PATIENCE = 30.0
"""How long one scenario may take, in seconds."""

FLAVOURS = ("async", "sync")


@dataclass(frozen=True)
class Engine:
    """An engine: the distribution that it comes in, and what makes a client of it in one flavour (`None`: none there)."""

    distribution: str
    client: Callable[[str], Any]


def _fake(**options: Any) -> Callable[[str], Any]:
    def made(flavour: str) -> Any:
        fakeredis: Any = importlib.import_module("fakeredis")
        kind = fakeredis.FakeAsyncRedis if flavour == "async" else fakeredis.FakeRedis
        return kind(server=fakeredis.FakeServer(**options), decode_responses=True)

    return made


def _fakevalkey(flavour: str) -> Any:
    fakevalkey: Any = importlib.import_module("fakevalkey")
    kind = fakevalkey.FakeAsyncRedis if flavour == "async" else fakevalkey.FakeValkey
    return kind(decode_responses=True)


def _burner(flavour: str) -> Any:
    burner: Any = importlib.import_module("burner_redis")
    return burner.BurnerRedis() if flavour == "async" else None


def _mockredis(flavour: str) -> Any:
    mockredis: Any = importlib.import_module("mockredis")
    return mockredis.MockRedis(load_lua_dependencies=True) if flavour == "sync" else None


ENGINES: dict[str, Engine] = {
    "memory stores": Engine("", lambda _: None),
    "fakeredis as Redis 6.2": Engine("fakeredis", _fake(version=(6, 2))),
    "fakeredis as Redis 7": Engine("fakeredis", _fake(version=(7,))),
    "fakeredis as Redis 8": Engine("fakeredis", _fake(version=(8,))),
    "fakeredis as Valkey 8": Engine("fakeredis", _fake(version=(8,), server_type="valkey")),
    "embedded server": Engine("", lambda _: None),
}
"""The engines that our stores take."""

REFUSED: dict[str, Engine] = {
    "burner-redis": Engine("burner-redis", _burner),
    "fakevalkey": Engine("fakevalkey", _fakevalkey),
    "mockredispy": Engine("mockredispy", _mockredis),
}
"""Engines whose client is no redis-py client."""

SCRIPTS: dict[str, tuple[int, tuple[str, ...]]] = {
    "take": (1, ("{w}:pass", "60000", "60000", "60000", "nonce")),
    "set_take": (3, ("{s}", "{s}:receipts", "{s}:answers", "60000", "", "nonce", "60000", "1")),
    "stream_reclaim": (1, ("{w}:ready", "workers", "me", "0", "0-0", "10")),
    "stream_trim": (1, ("{w}:ready", "100")),
}
"""Requests that any engine would have to serve: the number of keys, keys and arguments."""


def scenarios(flavour: str) -> ModuleType:
    """The scenarios of one flavour."""
    return importlib.import_module(f"redis_{flavour}.scenarios")


def rows() -> list[tuple[str, str, str]]:
    """Group, queue and name of every scenario, in the order of the table."""
    told: Any = scenarios("async")
    groups = [
        ("store", "stream", told.STORE),
        ("queue", "stream", told.QUEUE),
        ("stream only", "stream", told.STREAM),
        ("queue", "set", told.QUEUE),
        ("effect", "stream", told.EFFECT),
    ]
    return [(group, queue, name) for group, queue, names in groups for name in names]


def _scenario(flavour: str, group: str, name: str) -> Callable[[Any], Any]:
    told: Any = scenarios(flavour)
    found: Callable[[Any], Any] = {**told.STORE, **told.QUEUE, **told.STREAM, **told.EFFECT}[name]
    return found


@asynccontextmanager
async def _client(engine: str, url: str) -> AsyncIterator[Any]:
    if engine == "embedded server":
        from redis.asyncio import Redis

        client: Any = Redis.from_url(url, decode_responses=True)
    else:
        client = ENGINES[engine].client("async")
    try:
        yield client
    finally:
        if client is not None:
            await client.aclose()


@contextmanager
def _blocking_client(engine: str, url: str) -> Iterator[Any]:
    if engine == "embedded server":
        from redis import Redis

        client: Any = Redis.from_url(url, decode_responses=True)
    else:
        client = ENGINES[engine].client("sync")
    try:
        yield client
    finally:
        if client is not None:
            client.close()


async def _run(engine: str, url: str, queue: str, call: Callable[[Any], Any]) -> None:
    async with _client(engine, url) as client, asyncio.timeout(PATIENCE):
        has: Any = scenarios("async").kit(client, queue)
        await has.queue.prepare()
        await call(has)


def _run_blocking(engine: str, url: str, queue: str, call: Callable[[Any], Any]) -> None:
    failed: list[BaseException] = []

    def run() -> None:
        try:
            with _blocking_client(engine, url) as client:
                has: Any = scenarios("sync").kit(client, queue)
                has.queue.prepare()
                call(has)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    if thread.is_alive():
        raise TimeoutError
    if failed:
        raise failed[0]


def came_of(engine: str, flavour: str, row: tuple[str, str, str], url: str = "") -> str:
    """ "yes", "-" where there is nothing to do, or why it failed."""
    group, queue, name = row
    if engine == "memory stores" and group in ("stream only", "effect"):
        return "-"
    call = _scenario(flavour, group, name)
    try:
        if flavour == "async":
            asyncio.run(_run(engine, url, queue, call))
        else:
            _run_blocking(engine, url, queue, call)
    except TimeoutError:
        return f"not within {PATIENCE:.0f} s"
    except BaseException as error:
        return told(error)
    return "yes"


def told(error: BaseException) -> str:
    """An error in a line of a table."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    first = re.sub(r"0x[0-9a-f]+", "0x...", lines[0] if lines else "")
    return f"{type(error).__name__} {first}".strip().replace("|", "/")[:160]


def refusal(name: str, flavour: str) -> str | None:
    """What our store says to a client of the engine, and what the engine says to our scripts; `None` if it has none."""
    engine = REFUSED[name]
    client = engine.client(flavour)
    if client is None:
        return None
    store: Any = importlib.import_module(f"durably_redis_{flavour}").RedisCheckpointer
    try:
        store(client)
    except TypeError as error:
        said = str(error)
    else:
        raise AssertionError(f"{name} was taken: move it to ENGINES")
    problems: dict[str, list[str]] = {}
    for script, (keys, request) in SCRIPTS.items():
        try:
            reply = client.eval(read_script(script), keys, *request)
            if flavour == "async":
                asyncio.run(_awaited(reply))
        except Exception as error:
            if "NOGROUP" not in str(error):  # which is the right answer: nobody made the group
                problems.setdefault(told(error), []).append(f"`{script}.lua`")
    failed = sum(map(len, problems.values()))
    ran = f"{len(SCRIPTS) - failed} of {len(SCRIPTS)} scripts of ours ran"
    return "; ".join([f"{said}. {ran}", *(f"{', '.join(one)}: {why}" for why, one in problems.items())])


async def _awaited(reply: Any) -> Any:
    return await reply


def version(engine: Engine) -> str:
    """The engine's version, as text to put behind its name."""
    from importlib.metadata import version

    return f" {version(engine.distribution)}" if engine.distribution else ""


def _cell(came: str, notes: dict[str, int]) -> str:
    """What came of a scenario as a cell; a reason becomes a note."""
    return came if came in ("yes", "-") else f"no ({notes.setdefault(came, len(notes) + 1)})"


def seen(engines: list[str]) -> str:
    """The table of `engines`."""
    found: dict[tuple[str, str, str], list[str]] = {}
    notes: dict[str, int] = {}
    with embedded.start() as server:
        for row in rows():
            for engine in engines:
                cells = {one: came_of(engine, one, row, server.url) for one in FLAVOURS}
                parts = [_cell(one, notes) for one in cells.values()]
                both = parts[0] if parts[0] == parts[1] else None
                cell = both or ", ".join(f"{one}: {part}" for one, part in zip(cells, parts, strict=True))
                found.setdefault(row, []).append(cell)
                print(f"{engine}: {row[0]}, {row[1]}: {row[2]}: {cells}", file=sys.stderr, flush=True)
    lines = ["| | " + " | ".join(engines) + " |", "|---|" + "---|" * len(engines)]
    for (group, queue, name), said in found.items():
        what = {"store": "store", "effect": "an effect's Lua"}.get(group, f"{queue} queue")
        lines.append(f"| {what}: {name} | {' | '.join(said)} |")
    lines += ["", *(f"{number}. {note}" for note, number in notes.items())] if notes else []
    versions = sorted({f"{one.distribution}{version(one)}" for one in ENGINES.values() if one.distribution})
    lines += ["", f"Seen with {', '.join(versions)}. Refused:", ""]
    for name, refused in REFUSED.items():
        for flavour in FLAVOURS:
            said_to_it = refusal(name, flavour)
            if said_to_it is not None:
                lines.append(f"- {name}{version(refused)}, {flavour}: {said_to_it}")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("engines", nargs="*", help="which (default: all, and compare with the page)")
    parser.add_argument("--write", action="store_true", help="write the table into the docs")
    options = parser.parse_args()
    unknown = set(options.engines) - set(ENGINES)
    if unknown:
        parser.error(f"no engine {', '.join(sorted(unknown))}: choose from {', '.join(ENGINES)}")
    table = seen(options.engines or list(ENGINES))
    print(table)
    if options.engines:
        return 0
    before, rest = PAGE.read_text().split(BEGIN)
    stands, after = rest.split(END)
    if options.write:
        PAGE.write_text(f"{before}{BEGIN}\n\n{table}\n\n{END}{after}")
    elif stands.strip() != table:
        print(f"{PAGE} shows another table: run it with --write, and read what changed", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # a scenario that hangs holds a thread
