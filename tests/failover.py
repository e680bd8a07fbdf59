"""Failovers under load, over and over: `python tests/failover.py sentinel --runs 20 --workflows 2000 --flavour sync`.

Prints one line per run; exits 1 when a workflow was lost that the promoted server holds, or an effect did not happen
exactly once. What the server itself loses (a submission that no replica had received) is counted, not held against it,
unless `--durability replicas` or `--confirmed` promise that there is nothing to lose.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import sys
from collections.abc import Callable
from typing import Any

from topologies import ClusterTopology, SentinelTopology, Topology

TOPOLOGIES: dict[str, Callable[[argparse.Namespace], Topology]] = {
    "cluster": lambda given: ClusterTopology(
        given.server, given.down_after, 2 if given.durability == "replicas" else 1
    ),
    "sentinel": lambda given: SentinelTopology(given.server, given.down_after),
}
"""Each by its name; made of the command line's options."""


def once(topology: Topology, flavour: str, scheduler: str, workflows: int, **options: Any) -> Any:
    """One failover: the `Report` of `failover_load`. `options`: of its `failover`."""
    load = importlib.import_module(f"redis_{flavour}.failover_load")
    topology.start()
    try:
        if flavour == "async":
            return asyncio.run(load.failover(topology, scheduler, workflows, **options))
        return load.failover(topology, scheduler, workflows, **options)
    finally:
        topology.stop()


def main() -> int:
    """Run them; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("topology", choices=sorted(TOPOLOGIES))
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--workflows", type=int, default=2000)
    parser.add_argument("--flavour", choices=["async", "sync"], default="async")
    parser.add_argument("--scheduler", choices=["stream", "set"], default="stream")
    parser.add_argument("--down-after", type=int, default=1500, help="ms until the master counts as dead")
    parser.add_argument("--server", default="embedded", help="a name of servers.py")
    parser.add_argument("--durability", choices=["memory", "replicas"], default="memory")
    parser.add_argument(
        "--confirmed", action="store_true", help="kill only when a replica has all submissions"
    )
    given = parser.parse_args()
    failed = 0
    for n in range(1, given.runs + 1):
        topology = TOPOLOGIES[given.topology](given)
        options = {"confirmed": given.confirmed, "durability": given.durability}
        report = once(topology, given.flavour, given.scheduler, given.workflows, **options)
        nothing_lost = given.confirmed or given.durability == "replicas"
        failed += not report.holds or (nothing_lost and bool(report.lost))
        print(f"{given.flavour} {given.scheduler} {given.durability} run {n}: {report}", flush=True)
    print(f"{given.runs} runs, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
