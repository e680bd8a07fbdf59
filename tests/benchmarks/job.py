"""One run of one measure by one implementation, in a process of its own: prints one line of JSON.

`ours` and `blocking` are this project's flavours; `peer` is the package whose wire format ours is, where it is installed.
CPU is what one core spends: of shared machines it is the steadier figure.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import statistics
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from types import ModuleType
from typing import Any
from uuid import uuid4

from redis import Redis as BlockingRedis
from redis.asyncio import Redis

STEPS = 3


def ms(n: float) -> timedelta:
    """`n` milliseconds."""
    return timedelta(milliseconds=n)


def modules(implementation: str) -> tuple[ModuleType, ModuleType]:
    """The runner's module and the stores'."""
    if implementation == "peer":
        import without_durability
        import without_durability_redis

        return without_durability, without_durability_redis
    if implementation == "blocking":
        import durably_redis_sync

        return durably_redis_sync, durably_redis_sync
    import durably_redis_async

    return durably_redis_async, durably_redis_async


def pair(implementation: str, scheduler: str, client: Any, namespace: str) -> Any:
    """A store and a queue."""
    of, stores = modules(implementation)
    queue = stores.RedisStreamScheduler if scheduler == "stream" else stores.RedisSetScheduler
    return of.SplitDurable(stores.RedisCheckpointer(client, namespace), queue(client, namespace))


def same(value: object) -> object:
    """A parse that checks nothing."""
    return value


def steps_of(implementation: str, ended: Callable[[], None]) -> Any:
    """A body of trivial steps."""
    if implementation == "blocking":

        def body(run: Any) -> None:
            for n in range(STEPS):
                run.step(f"step {n}", lambda: 1, same)
            ended()

        return body

    async def effect() -> int:
        return 1

    async def abody(run: Any) -> None:
        for n in range(STEPS):
            await run.step(f"step {n}", effect, same)
        ended()

    return abody


async def with_worker(
    options: argparse.Namespace, body: Any, until: Any, client: Any, namespace: str
) -> None:
    """Run a worker of the implementation until `until` is set."""
    durable = pair(options.implementation, options.scheduler, client, namespace)
    of, _ = modules(options.implementation)
    running = asyncio.ensure_future(of.work(durable, body, limit=options.limit))
    over = asyncio.ensure_future(until.wait())
    await asyncio.wait({running, over}, return_when=asyncio.FIRST_COMPLETED)
    running.cancel()
    await asyncio.gather(running, over, return_exceptions=True)


def run_worker(options: argparse.Namespace, body: Callable[[Callable[[], None]], Any], beside: Any) -> None:
    """Run a worker, and `beside(finish)` on a thread, until `finish` is called."""
    if options.implementation == "blocking":
        of, _ = modules("blocking")
        stop = threading.Event()
        client = BlockingRedis.from_url(options.url, decode_responses=True)
        durable = pair("blocking", options.scheduler, client, options.namespace)
        threading.Thread(target=beside, args=(stop.set,), daemon=True).start()
        of.work(durable, body(stop.set), limit=options.limit, stop=stop)
        return

    async def main() -> None:
        loop = asyncio.get_running_loop()
        until = asyncio.Event()

        def finish() -> None:
            loop.call_soon_threadsafe(until.set)

        client = Redis.from_url(options.url, decode_responses=True)
        threading.Thread(target=beside, args=(finish,), daemon=True).start()
        await with_worker(options, body(until.set), until, client, options.namespace)
        await client.aclose()

    asyncio.run(main())


def queue_all(options: argparse.Namespace, names: list[str]) -> None:
    """Make workflows ready, as the wire format says."""
    client = BlockingRedis.from_url(options.url, decode_responses=True)
    pipe = client.pipeline(transaction=False)
    now = int(time.time() * 1000)
    for name in names:
        if options.scheduler == "stream":
            pipe.xadd(f"{{{options.namespace}}}:ready", {"workflow": name})
        else:
            pipe.zadd(f"{options.namespace}:schedule", {name: now})
    pipe.execute()
    client.close()


def submitter(options: argparse.Namespace) -> Callable[[str], object]:
    """What makes one workflow ready over a connection that is there already."""
    client = BlockingRedis.from_url(options.url, decode_responses=True)
    client.ping()
    if options.implementation != "peer":
        queue = pair("blocking", options.scheduler, client, options.namespace).scheduler
        queue.make_ready("warm")
        queue.cancel("warm")
        ready: Callable[[str], object] = queue.make_ready
        return ready
    if options.scheduler == "stream":
        return lambda name: client.xadd(f"{{{options.namespace}}}:ready", {"workflow": name})
    return lambda name: client.zadd(f"{options.namespace}:schedule", {name: int(time.time() * 1000)})


def cpu(client: BlockingRedis) -> float:
    """CPU seconds that the server has used."""
    info: Any = client.info("cpu")
    return float(info["used_cpu_user"]) + float(info["used_cpu_sys"])


def calls(client: BlockingRedis, seconds: float) -> int:
    """Commands that clients send in so many seconds, as the server sees them: what scripts call is not counted."""
    total = 0
    watched: Any = client
    with watched.monitor() as seen:
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            total += seen.connection.can_read(0.05) and seen.next_command()["client_type"] != "lua"
    return total


def done_so_far(client: BlockingRedis) -> tuple[float, float, float]:
    """What the server has done: how often it read what clients sent, scripts, commands with those of scripts."""
    stats: Any = client.info("stats")
    by: Any = client.info("commandstats")
    scripts = sum(by.get(f"cmdstat_{name}", {}).get("calls", 0) for name in ("eval", "evalsha"))
    return float(stats["total_reads_processed"]), scripts, sum(one["calls"] for one in by.values())


def memory() -> float:
    """The most memory that this process has held, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def throughput(options: argparse.Namespace) -> dict[str, float]:
    """How long it takes to run all workflows that are ready."""
    server = BlockingRedis.from_url(options.url, decode_responses=True)
    modules(options.implementation)  # imports are no part of it
    names = [f"w{n}" for n in range(options.count)]
    queue_all(options, names)
    left = options.count
    guard = threading.Lock()
    before = done_so_far(server)
    used = cpu(server)
    began = time.perf_counter()
    took: list[float] = []

    def body(finish: Callable[[], None]) -> Any:
        def ended() -> None:
            nonlocal left
            with guard:
                left -= 1
                if left == 0:
                    took.append(time.perf_counter() - began)
                    finish()

        return steps_of(options.implementation, ended)

    own = time.process_time()
    run_worker(options, body, lambda finish: None)
    own, used, after = time.process_time() - own, cpu(server) - used, done_so_far(server)
    reads, scripts, commands = ((now - then) / options.count for now, then in zip(after, before, strict=True))
    return {
        "workflows/s": options.count / took[0],
        "client CPU ms": own * 1000 / options.count,
        "server CPU ms": used * 1000 / options.count,
        "reads by the server": reads,
        "scripts": scripts,
        "commands in all": commands,
        "memory MB": memory(),
    }


def latency(options: argparse.Namespace) -> dict[str, float]:
    """Submit to first step on an idle worker, and lateness after a sleep of 200 ms; medians in ms."""
    submitted: dict[str, float] = {}
    picked: list[float] = []
    late: list[float] = []
    due: dict[str, float] = {}

    def note(name: str) -> None:
        if name not in submitted:
            return
        if name in due:
            late.append((time.perf_counter() - due[name]) * 1000)
        else:
            picked.append((time.perf_counter() - submitted[name]) * 1000)
            due[name] = time.perf_counter() + 0.2

    def body(finish: Callable[[], None]) -> Any:
        if options.implementation == "blocking":

            def blocking(run: Any) -> None:
                note(run.workflow)
                run.sleep("nap", ms(200))

            return blocking

        async def sleeping(run: Any) -> None:
            note(run.workflow)
            await run.sleep("nap", ms(200))

        return sleeping

    def beside(finish: Callable[[], None]) -> None:
        submit = submitter(options)
        time.sleep(1.0)
        for n in range(options.count):
            name = f"w{n}"
            submitted[name] = time.perf_counter()
            submit(name)
            time.sleep(0.013 + 0.0017 * (n % 11))
        time.sleep(0.6)
        finish()

    run_worker(options, body, beside)
    return {"pick-up ms": statistics.median(picked), "late ms": statistics.median(late)}


def idle(options: argparse.Namespace) -> dict[str, float]:
    """Commands that an idle worker sends, per second."""
    server = BlockingRedis.from_url(options.url, decode_responses=True)
    seen: list[float] = []

    def beside(finish: Callable[[], None]) -> None:
        time.sleep(1.5)
        seen.append(calls(server, options.seconds) / options.seconds)
        finish()

    run_worker(options, lambda finish: steps_of(options.implementation, lambda: None), beside)
    return {"commands/s": seen[0]}


def imports(options: argparse.Namespace) -> dict[str, float]:
    """How long importing a front-end takes over importing the client, which is there already; and what it holds."""
    held, began = memory(), time.perf_counter()
    modules(options.implementation)
    return {"import ms": (time.perf_counter() - began) * 1000, "import MB": memory() - held}


def load(options: argparse.Namespace) -> dict[str, float]:
    """How long reading a checkpoint of 10,000 steps takes, the median of 15."""
    _, stores = modules(options.implementation)
    fields: Any = {f"step {n}": f'{n}:1700000000000:{{"id": {n}, "ok": true}}' for n in range(10_000)}
    blocking = BlockingRedis.from_url(options.url, decode_responses=True)
    blocking.hset(f"{options.namespace}:{{w}}", mapping=fields)
    took: list[float] = []
    if options.implementation == "blocking":
        store = stores.RedisCheckpointer(blocking, options.namespace)
        for _ in range(15):
            began = time.perf_counter()
            store.load("w")
            took.append(time.perf_counter() - began)
    else:

        async def main() -> None:
            client = Redis.from_url(options.url, decode_responses=True)
            store = stores.RedisCheckpointer(client, options.namespace)
            for _ in range(15):
                began = time.perf_counter()
                await store.load("w")
                took.append(time.perf_counter() - began)
            await client.aclose()

        asyncio.run(main())
    blocking.delete(f"{options.namespace}:{{w}}")
    return {"load ms": statistics.median(took) * 1000}


MEASURES = {"throughput": throughput, "latency": latency, "idle": idle, "imports": imports, "load": load}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("measure", choices=list(MEASURES))
    parser.add_argument("implementation", choices=["ours", "blocking", "peer"])
    parser.add_argument("scheduler", choices=["stream", "set"])
    parser.add_argument("--limit", type=int, default=20)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--url", required=True)
    options = parser.parse_args()
    options.namespace = f"bench{uuid4().hex[:8]}"
    print(json.dumps(MEASURES[options.measure](options)))


if __name__ == "__main__":
    main()
