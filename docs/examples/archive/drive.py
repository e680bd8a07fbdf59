"""Archive real files while workers and the server are killed, then check that nothing was lost or doubled.

On a cluster one master is killed, the one that owns the queue, and its replica takes over.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import contextlib
import gzip
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from chaos import Cluster, Single
from connection import SCHEDULERS, TOPOLOGIES, build, connect
from durably_redis_async import PartitionedScheduler, RedisSetScheduler, RedisStreamScheduler
from redis.asyncio import Redis, RedisCluster
from redis.exceptions import RedisError
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from workflow import ledger_key, workflow_id

HERE = Path(__file__).parent
SCRIPTS = {"async": HERE / "worker.py", "sync": HERE.parent / "archive_sync" / "worker.py"}
ALLOWED = 240.0
"""How long the whole may take, in seconds, before what is missing counts as lost."""


@dataclass
class Fleet:
    """The processes of one run, and what became of them."""

    folder: Path
    scheduler: str
    namespace: str
    url: str
    topology: str = "single"
    flavour: str = "async"
    started: int = 0
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)
    kills: int = 0

    def start(self, role: str) -> subprocess.Popen[bytes]:
        """Start a process of this role, of the fleet's flavour or of each in turn."""
        flavours = list(SCRIPTS) if self.flavour == "mixed" else [self.flavour]
        script = SCRIPTS[flavours[self.started % len(flavours)]]
        self.started += 1
        command = [
            sys.executable,
            str(script),
            role,
            str(self.folder),
            self.topology,
            self.scheduler,
            self.namespace,
        ]
        return subprocess.Popen(command, env={**os.environ, "REDIS_URL": self.url})

    def replace_one(self) -> None:
        """Kill a worker outright and start another."""
        doomed = self.workers.pop(random.randrange(len(self.workers)))
        doomed.kill()
        doomed.wait()
        self.kills += 1
        self.workers.append(self.start("worker"))

    def end(self) -> None:
        """End every worker."""
        for one in self.workers:
            one.send_signal(signal.SIGKILL)
            one.wait()


def sources(folder: Path, most: int) -> list[str]:
    """The first `most` regular files under `folder`, by path."""
    found: list[str] = []
    for where, folders, names in os.walk(folder):
        folders.sort()
        folders[:] = [one for one in folders if one not in ("__pycache__", "site-packages")]
        for name in sorted(names):
            path = Path(where) / name
            if path.is_file() and not path.is_symlink() and os.access(path, os.R_OK):
                found.append(str(path.resolve()))
            if len(found) == most:
                return found
    return found


def log_lines(folder: Path) -> collections.Counter[str]:
    """What the workers really did, over all of them."""
    lines: collections.Counter[str] = collections.Counter()
    for path in (folder / "logs").glob("*.log"):
        lines.update(path.read_text().splitlines())
    return lines


def published(folder: Path) -> int:
    """How many files are published."""
    return sum(1 for one in (folder / "out").iterdir() if not one.name.startswith("."))


async def left_in_queue(redis: Redis | RedisCluster, scheduler: str, namespace: str) -> int:
    """How many wakeups, sleepers and unanswered deliveries there are."""
    asked: Any = redis
    left = 0
    for queue in queues(redis, scheduler, namespace):
        if isinstance(queue, RedisSetScheduler):
            left += int(await asked.zcard(queue.schedule_key))
        else:
            await queue.trim()
            left += int(await asked.xlen(queue.ready_key)) + int(await asked.zcard(queue.sleeping_key))
    return left


def queues(
    redis: Redis | RedisCluster, scheduler: str, namespace: str
) -> list[RedisStreamScheduler | RedisSetScheduler]:
    """The queue, or its parts."""
    made = build(redis, scheduler, namespace).scheduler
    if isinstance(made, PartitionedScheduler):
        return list(made.partitions)
    assert isinstance(made, (RedisStreamScheduler, RedisSetScheduler))
    return [made]


async def wanting(redis: Redis | RedisCluster, files: list[str], folder: Path, namespace: str) -> list[str]:
    """Everything that is lost, doubled or not identical."""
    wrong = []
    names = {one.name for one in (folder / "out").iterdir() if not one.name.startswith(".")}
    for number, source in enumerate(files):
        workflow = workflow_id(number)
        out = folder / "out" / f"{workflow}.gz"
        if out.name not in names:
            wrong.append(f"{workflow} was not published")
        elif (
            hashlib.sha256(gzip.decompress(out.read_bytes())).digest()
            != hashlib.sha256(Path(source).read_bytes()).digest()
        ):
            wrong.append(f"{workflow} is not identical to its source")
        asked: Any = redis
        ledger = await asked.hgetall(ledger_key(workflow, namespace))
        if ledger != {workflow: "1"}:
            wrong.append(f"{workflow}'s ledger says {ledger}")
    if len(names) != len(files):
        wrong.append(f"{len(names)} files are published, not {len(files)}")
    return wrong


async def submit(redis: Redis | RedisCluster, fleet: Fleet, count: int) -> None:
    """Queue every file."""
    durable = build(redis, fleet.scheduler, fleet.namespace)
    await durable.scheduler.prepare()
    for number in range(count):
        await durable.scheduler.make_ready(workflow_id(number))


async def drive(options: argparse.Namespace, folder: Path, console: Console) -> int:
    """Run it all; the process's exit code."""
    files = sources(options.source, options.files)
    (folder / "sources.json").write_text(json.dumps(files))
    namespace = f"archive-{uuid4().hex[:8]}"
    own: Single | Cluster | None = None
    if not options.redis_url:
        own = Single(folder / "server") if options.topology == "single" else Cluster(folder / "server")
    url = options.redis_url if own is None else own.url
    fleet = Fleet(folder, options.scheduler, namespace, url, options.topology, options.flavour)
    redis = connect(fleet.url, options.topology)
    queue = queues(redis, options.scheduler, namespace)[0]
    queue_key = queue.schedule_key if isinstance(queue, RedisSetScheduler) else queue.ready_key
    started = time.monotonic()
    approver = None
    try:
        await submit(redis, fleet, len(files))
        fleet.workers += [fleet.start("worker") for _ in range(options.workers)]
        approver = fleet.start("approver")
        columns = (TextColumn("archiving"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, TextColumn("{task.fields[note]}"), console=console) as progress:
            bar = progress.add_task("", total=len(files), note="")
            next_kill = started + options.kill_every
            quiet = 0
            while quiet < 3 and time.monotonic() - started < ALLOWED:
                await asyncio.sleep(0.1)
                done = published(folder)
                progress.update(bar, completed=done, note=f"{fleet.kills} workers killed")
                if done < len(files) and time.monotonic() >= next_kill:
                    next_kill += options.kill_every
                    fleet.replace_one()
                if own is not None and not own.kills and done >= len(files) // 3:
                    own.kill(queue_key)
                over = False
                made_good = own is None or own.is_over()
                if done >= len(files) and made_good:
                    with contextlib.suppress(RedisError, OSError):
                        over = not await left_in_queue(redis, options.scheduler, namespace)
                quiet = quiet + 1 if over else 0
        took = time.monotonic() - started
        left = await left_in_queue(redis, options.scheduler, namespace)
        wrong = await wanting(redis, files, folder, namespace)
        if left:
            wrong.append(f"{left} wakeups are left in the queue")
        report(console, files, fleet, log_lines(folder), 0 if own is None else own.kills, took)
        for line in [] if own is None else own.told():
            console.print(line)
        for line in wrong:
            console.print(f"[red]{line}")
        console.print(
            "[red]something is lost or doubled" if wrong else "[green]nothing lost, nothing doubled"
        )
        return 1 if wrong else 0
    finally:
        fleet.end()
        if approver is not None:
            with contextlib.suppress(ProcessLookupError):
                approver.kill()
            approver.wait()
        if own is None:
            asked: Any = redis
            async for key in asked.scan_iter(match=f"*{namespace}*", count=1000):
                await asked.delete(key)
        await redis.aclose()
        if own is not None:
            own.stop()


def report(
    console: Console,
    files: list[str],
    fleet: Fleet,
    lines: collections.Counter[str],
    kills: int,
    took: float,
) -> None:
    """The table at the end."""
    acts: collections.Counter[str] = collections.Counter()
    repeated = 0
    for line, times in lines.items():
        act = line.split(" ", 1)[0]
        acts[act] += times
        if act not in ("pass", "end"):
            repeated += times - 1
    table = Table(title="the archive")
    for name in (
        "files",
        "MB",
        "passes",
        "workers killed",
        "server kills",
        "steps repeated",
        "wakeups",
        "seconds",
    ):
        table.add_column(name, justify="right")
    size = sum(Path(one).stat().st_size for one in files) / 1e6
    table.add_row(
        str(len(files)),
        f"{size:.1f}",
        str(acts["pass"]),
        str(fleet.kills),
        str(kills),
        str(repeated),
        str(acts["pass"] - len(files)),
        f"{took:.1f}",
    )
    console.print(table)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--source", type=Path, default=Path(sysconfig.get_paths()["stdlib"]), help="folder of files"
    )
    parser.add_argument("--files", type=int, default=400, help="how many of them (default 400)")
    parser.add_argument("--workers", type=int, default=3, help="worker processes (default 3)")
    parser.add_argument("--kill-every", type=float, default=1.0, help="seconds between kills (default 1)")
    parser.add_argument(
        "--flavour", choices=["async", "sync", "mixed"], default="async", help="whose workers (default async)"
    )
    parser.add_argument(
        "--topology",
        choices=TOPOLOGIES,
        default="single",
        help="one server, or a cluster of three masters and three replicas (default single)",
    )
    parser.add_argument(
        "--scheduler",
        choices=SCHEDULERS,
        default="stream",
        help="the queue: one stream, one set, or one queue of four streams (default stream)",
    )
    parser.add_argument(
        "--redis-url",
        default=os.environ.get("REDIS_URL"),
        help="a running server, or with commas some nodes of a cluster; nothing of it is killed (default: embedded)",
    )
    options = parser.parse_args()
    if options.files < 1 or options.workers < 1 or options.kill_every <= 0:
        parser.error("files and workers must be 1 or more, and kill-every more than 0")
    folder = Path(tempfile.mkdtemp(prefix="durably-archive-"))
    for name in ("out", "logs"):
        (folder / name).mkdir()
    try:
        return asyncio.run(drive(options, folder, Console()))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
