"""What several partitions change for one queue on a cluster: throughput, and the load of the busiest node. Ours, about
ourselves.

Three nodes, several worker processes, the same workflows in 1, 2 and 4 partitions by turns. Only ratios of one run mean
anything, and on a machine with few cores throughput tells of the clients, not of the nodes: a node's CPU time per
workflow is what a node of its own would have to give.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import platform
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import durably_redis_async as durably
import redis as client_library
from durably.embedded_cluster import SLOTS, EmbeddedCluster, say
from redis.asyncio import RedisCluster
from redis.crc import key_slot

STEPS = 3
PLACES = {1: [0], 2: [0, 1], 4: [0, 1, 1, 2]}
"""On which nodes the partitions are. Names that differ in their last digit have slots a quarter of all apart, so four
partitions are on all of three nodes, two of them on one."""
PAGE = Path(__file__).parents[2] / "docs" / "cluster.md"
BEGIN, END = "<!-- partitions: begin -->", "<!-- partitions: end -->"
LETTERS = "ABCDEFGH"


@dataclass(frozen=True)
class Job:
    """One run: `count` ready workflows of three trivial steps."""

    url: str
    kind: str
    partitions: int
    namespace: str
    count: int
    limit: int


@dataclass(frozen=True)
class Result:
    """What came of one run: rates per second, CPU in ms per workflow, by client and by node."""

    rate: float
    cores: float
    client: float
    nodes: tuple[float, ...]


def same(value: object) -> object:
    """A parse that checks nothing."""
    return value


def built(client: RedisCluster, job: Job) -> durably.SplitDurable[durably.LuaEffect]:
    """The store and the queue."""
    make = durably.PartitionedScheduler.of_streams
    if job.kind == "set":
        make = durably.PartitionedScheduler.of_sets
    queue = make(client, job.namespace, job.partitions)
    return durably.SplitDurable(durably.RedisCheckpointer(client, job.namespace), queue)


def work(job: Job, together: Any, left: Any, over: Any, used: Any) -> None:
    """A worker process, from the moment all are there until all workflows have ended."""

    async def effect() -> int:
        return 1

    async def body(run: durably.Run) -> None:
        for n in range(STEPS):
            await run.step(f"step {n}", effect, same)
        with left.get_lock():
            left.value -= 1

    async def main() -> None:
        client = RedisCluster.from_url(job.url, decode_responses=True)
        durable = built(client, job)
        await durable.scheduler.prepare()
        stop = asyncio.Event()
        together.wait()
        own = time.process_time()
        running = asyncio.ensure_future(durably.work(durable, body, limit=job.limit, stop=stop))
        while not over.is_set():
            await asyncio.sleep(0.02)
        with used.get_lock():
            used.value += time.process_time() - own
        stop.set()
        await running
        await client.aclose()

    asyncio.run(main())


async def submit(job: Job) -> None:
    """Queue every workflow."""
    client = RedisCluster.from_url(job.url, decode_responses=True)
    queue = built(client, job).scheduler
    await queue.prepare()
    for first in range(0, job.count, 100):
        names = [f"w{n}" for n in range(first, min(first + 100, job.count))]
        await asyncio.gather(*(queue.make_ready(one) for one in names))
    await client.aclose()


def cpu(port: int) -> float:
    """CPU seconds that the node on `port` has used."""
    info = dict(line.split(":", 1) for line in str(say(port, "INFO", "cpu")).splitlines() if ":" in line)
    return float(info["used_cpu_user"]) + float(info["used_cpu_sys"])


def once(cluster: EmbeddedCluster, job: Job, workers: int) -> Result:
    """One run on an empty cluster."""
    for node in cluster.nodes:
        say(node.port, "FLUSHALL")
    asyncio.run(submit(job))
    context = multiprocessing.get_context("spawn")
    together = context.Barrier(workers + 1)
    left, over, used = context.Value("i", job.count), context.Event(), context.Value("d", 0.0)
    running = [
        context.Process(target=work, args=(job, together, left, over, used), daemon=True)
        for _ in range(workers)
    ]
    for one in running:
        one.start()
    together.wait(60)
    began, before = time.perf_counter(), [cpu(node.port) for node in cluster.nodes]
    while left.value > 0:
        if time.perf_counter() - began > 300 or not all(one.is_alive() for one in running):
            raise RuntimeError(f"{left.value} of {job.count} workflows did not end")
        time.sleep(0.002)
    took = time.perf_counter() - began
    nodes = [cpu(node.port) - one for node, one in zip(cluster.nodes, before, strict=True)]
    over.set()
    for one in running:
        one.join(30)
    each = 1000 / job.count
    return Result(
        job.count / took,
        (used.value + sum(nodes)) / took,
        used.value * each,
        tuple(node * each for node in nodes),
    )


def owners(cluster: EmbeddedCluster, job: Job) -> list[int]:
    """The number of the node that each partition is on."""
    form = "{{{}}}:ready" if job.kind == "stream" else "{}:schedule"
    slots = [key_slot(form.format(f"{job.namespace}.{n}").encode()) for n in range(job.partitions)]
    return [slot * len(cluster.nodes) // SLOTS for slot in slots]


def placed(cluster: EmbeddedCluster, job: Job) -> Job:
    """The same job in a fresh namespace whose partitions are where `PLACES` says."""
    wanted = PLACES[job.partitions]
    for _ in range(10_000):
        if owners(cluster, job) == wanted:
            break
        job = Job(job.url, job.kind, job.partitions, f"bench{uuid4().hex[:8]}", job.count, job.limit)
    else:
        raise RuntimeError(f"no namespace puts partitions on the nodes {wanted}")
    for n, node in enumerate(wanted):  # the cluster says so, too
        form = "{{{}}}:ready" if job.kind == "stream" else "{}:schedule"
        slot = key_slot(form.format(f"{job.namespace}.{n}").encode())
        assert cluster.owner(slot) is cluster.nodes[node]
    return job


def middle(values: Sequence[float], form: str = ".3f") -> str:
    """Median and range."""
    return f"{statistics.median(values):{form}} ({min(values):{form}} to {max(values):{form}})"


def table(results: dict[int, list[Result]], nodes: int) -> str:
    """Markdown: a row per number of partitions."""
    lines = [
        "| partitions | on nodes | workflows/s | over 1 | clients, ms/workflow "
        "| busiest node, ms/workflow | over 1 | nodes, ms/workflow |",
        "|---|---|---|---|---|---|---|---|",
    ]
    base = results[1]
    rate = statistics.median(one.rate for one in base)
    busy = statistics.median(max(one.nodes) for one in base)
    for partitions, found in results.items():
        where = ", ".join(LETTERS[n] for n in PLACES[partitions])
        busiest = [max(one.nodes) for one in found]
        spread = " + ".join(f"{statistics.median(one.nodes[n] for one in found):.3f}" for n in range(nodes))
        lines.append(
            f"| {partitions} | {where} | {middle([one.rate for one in found], '.0f')} "
            f"| {statistics.median(one.rate for one in found) / rate:.2f} "
            f"| {middle([one.client for one in found])} | {middle(busiest)} "
            f"| {statistics.median(busiest) / busy:.2f} | {spread} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7, help="alternating runs of each (default 7)")
    parser.add_argument("--count", type=int, default=2000, help="workflows per run (default 2000)")
    parser.add_argument("--workers", type=int, default=3, help="worker processes (default 3)")
    parser.add_argument("--limit", type=int, default=20, help="passes at once in each (default 20)")
    parser.add_argument("--kind", choices=["stream", "set"], default="stream")
    parser.add_argument("--write", action="store_true", help="write the table into docs/cluster.md")
    options = parser.parse_args()
    results: dict[int, list[Result]] = {partitions: [] for partitions in PLACES}
    with EmbeddedCluster(3, 0) as cluster:
        info = str(say(cluster.nodes[0].port, "INFO", "server"))
        told = dict(line.split(":", 1) for line in info.splitlines() if ":" in line)
        version = f"Valkey {told['valkey_version']}" if "valkey_version" in told else told["redis_version"]
        for _ in range(options.rounds):
            for partitions in PLACES:
                job = Job(cluster.url, options.kind, partitions, "bench", options.count, options.limit)
                results[partitions].append(once(cluster, placed(cluster, job), options.workers))
        count = len(cluster.nodes)
    cores = statistics.median(one.cores for found in results.values() for one in found)
    text = (
        f"{options.count} workflows of {STEPS} steps, {options.workers} worker processes of {options.limit} passes, "
        f"{options.kind}s, {count} nodes; median and range of {options.rounds} runs by turns. "
        f"Python {platform.python_version()}, redis-py {client_library.__version__}, "
        f"{version}, {os.cpu_count()} cores, of which workers and nodes "
        f"together used {cores:.1f}.\n\n{table(results, count)}"
    )
    print(text)
    if options.write:
        before, rest = PAGE.read_text().split(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{rest.split(END)[1]}")


if __name__ == "__main__":
    main()
