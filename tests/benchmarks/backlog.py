"""What acts on a queue cost behind backlogs of growing length, ready and asleep: prints one table per scheduler.

Each figure is the server's own time, from its log of commands: client, network and other load do not count. It is the
mean per act, with the slowest command in brackets.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from durably import embedded
from durably_redis_sync import Delivery, RedisSetScheduler, RedisStreamScheduler, now_utc
from redis import Redis

REPEATS = 30
CHUNK = 10_000
MS = timedelta(milliseconds=1)
LOGGED = 4096


def logged(client: Redis) -> tuple[float, float]:
    """What clients' commands took since the log was emptied, in ms: in all, and the slowest."""
    log: Any = client.slowlog_get(LOGGED)
    took = [
        float(one["duration"]) / 1000 for one in log if not str(one["command"]).upper().startswith("SLOWLOG")
    ]
    return sum(took), max(took, default=0.0)


def scripts(client: Redis) -> float:
    """What scripts have taken in all, in ms."""
    stats: Any = client.info("commandstats")
    return sum(float(stats.get(f"cmdstat_{name}", {}).get("usec", 0)) for name in ("eval", "evalsha")) / 1000


def fill(client: Redis, scheduler: Any, ready: int, asleep: int) -> None:
    """A backlog, as the wire format says."""
    later, now = time.time() + 86_400, int(time.time() * 1000)
    for start in range(0, max(ready, asleep), CHUNK):
        pipe = client.pipeline(transaction=False)
        for n in range(start, min(start + CHUNK, ready)):
            if isinstance(scheduler, RedisStreamScheduler):
                pipe.xadd(scheduler.ready_key, {"workflow": f"r{n}"})
            else:
                pipe.zadd(scheduler.schedule_key, {f"r{n}": now})
        for n in range(start, min(start + CHUNK, asleep)):
            if isinstance(scheduler, RedisStreamScheduler):
                pipe.zadd(scheduler.sleeping_key, {f"s{n}": later + n})
            else:
                pipe.zadd(scheduler.schedule_key, {f"s{n}": int((later + n) * 1000)})
        pipe.execute()


def measured(client: Redis, act: Callable[[int], object]) -> str:
    """Server time per call of `act`, and the slowest command."""
    act(0)
    client.slowlog_reset()
    for n in range(1, REPEATS):
        act(n)
    total, slowest = logged(client)
    return f"{total / (REPEATS - 1):.3f} ({slowest:.2f})"


def acts_of(scheduler: Any, ready: int) -> dict[str, Callable[[int], object]]:
    """What is measured, in this order. Each leaves the backlog as long as it was, more or less."""
    taken: list[Delivery] = []

    def pick_up(_: int) -> None:
        taken.extend(scheduler.next_several(MS * 50, 1))

    def sleep(n: int) -> None:
        scheduler.wake_at(taken.pop(), now_utc() - MS)

    def finish(_: int) -> None:
        (one,) = scheduler.next_several(MS * 50, 1)
        scheduler.done(one)

    return {
        "submit": lambda n: scheduler.make_ready(f"new{n}"),
        "pick-up": pick_up,
        "sleep": sleep,
        "wake": lambda _: scheduler.wake_and_look(),
        "cancel": lambda n: scheduler.cancel(f"r{ready // 2 + n}"),
        "pick-up after it": finish,
        "reclaim": lambda _: scheduler.reclaim(timedelta(hours=1)),
    }


def row(client: Redis, kind: str, ready: int, asleep: int, trims: bool) -> list[str]:
    """One line of the table."""
    client.flushall()
    scheduler: Any = RedisStreamScheduler(client) if kind == "stream" else RedisSetScheduler(client)
    scheduler.prepare()
    fill(client, scheduler, ready, asleep)
    cells = [f"{ready}", f"{asleep}"]
    for act in acts_of(scheduler, ready).values():
        cells.append(measured(client, act))
    if trims:
        for _ in range(2):  # with marks to take off, and without
            client.slowlog_reset()
            before = scripts(client)
            scheduler.trim()
            cells.append(f"{scripts(client) - before:.1f} ({logged(client)[1]:.2f})")
    return cells


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--longest", type=int, default=1_000_000, help="the longest backlog (default 1000000)"
    )
    parser.add_argument("--url", help="a server to use, which is EMPTIED (default: the embedded one)")
    options = parser.parse_args()
    server = None if options.url else embedded.start(tcp=True)
    client = Redis.from_url(options.url or (server.url if server else ""), decode_responses=True)
    try:
        client.config_set("slowlog-log-slower-than", 0)
        client.config_set("slowlog-max-len", LOGGED)
        for kind in ("stream", "set"):
            trims = kind == "stream"
            names = ["ready", "asleep", *acts_of(None, 0), *(["trim, in all", "again"] if trims else [])]
            print(f"\n{kind}: server time per act in ms, the slowest command in brackets\n")
            print(f"| {' | '.join(names)} |\n|{'---|' * len(names)}")
            sizes = [10**n for n in range(2, 8) if 10**n <= options.longest]
            for ready, asleep in [*((n, 0) for n in sizes), *((100, n) for n in sizes)]:
                print(f"| {' | '.join(row(client, kind, ready, asleep, trims))} |", flush=True)
    finally:
        client.close()
        if server is not None:
            server.stop()


if __name__ == "__main__":
    main()
