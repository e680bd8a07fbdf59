"""What each durability loses when servers die, counted: `nox -s loss`. Writes the table of `docs/durability.md`.

Run alone: `python tests/loss.py [--write] [--count N] [SERVER...]`. Each cell is a run of its own: threads record steps on a
master that has a replica; when enough were acknowledged the accident happens, with calls under way; then every step
whose call had returned is looked for. Exits with 1 where a level loses what it promises to keep.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import replicated
import servers
from durably_redis_sync import (
    Durability,
    DurabilityUnsupported,
    Fenced,
    NotDurable,
    Pass,
    RedisCheckpointer,
    claimed,
)
from redis import Redis
from redis.exceptions import ConnectionError as RedisConnectionError
from replicated import Replicated

PAGE = Path(__file__).parents[1] / "docs" / "durability.md"
BEGIN, END = "<!-- loss: begin -->", "<!-- loss: end -->"
LEVELS: tuple[Durability, ...] = ("memory", "replicas", "disk")
THREADS = 16
VALUE = "x" * 4000
"""Large enough that what the replica has not read does not fit into the sockets between the two."""


class Writers:
    """Threads that record steps until told to stop, and note each that was acknowledged."""

    def __init__(self, url: str, level: Durability) -> None:
        self.client = Redis.from_url(url, decode_responses=True, socket_timeout=5)
        within = timedelta(seconds=2) if level == "disk" else timedelta(milliseconds=300)
        self.store = RedisCheckpointer(
            self.client, "loss", durability=level, acknowledged_within=within, max_bytes=None
        )
        self.acknowledged: list[tuple[str, str]] = []
        self.refused = 0
        self._over = self._happening = False
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Begin. Raises `DurabilityUnsupported`."""
        self.store.prepare()
        for number in range(THREADS):
            holder = claimed(self.store, f"w{number}", timedelta(hours=1), timedelta(hours=1))
            self._threads.append(threading.Thread(target=self._write, args=(holder,), daemon=True))
        for one in self._threads:
            one.start()

    def _write(self, holder: Pass) -> None:
        number = 0
        while not self._over:
            key = f"s{number}"
            number += 1
            try:
                self.store.record(holder, key, VALUE)
            except NotDurable:
                with self._lock:
                    self.refused += not self._over
            except (Fenced, OSError, RedisConnectionError):
                if self._over or self._happening:
                    return
                raise
            else:
                with self._lock:
                    if not self._over:
                        self.acknowledged.append((holder.workflow, key))

    def until(self, count: int, within: float = 120.0) -> None:
        """Wait for `count` acknowledged steps."""
        end = time.monotonic() + within
        while len(self.acknowledged) < count:
            if time.monotonic() > end:
                raise RuntimeError(f"{len(self.acknowledged)} of {count} steps after {within} s")
            time.sleep(0.005)

    def accident(self, happens: Callable[[], None]) -> None:
        """Let it happen. What returns from now on does not count."""
        self._happening = True
        happens()
        with self._lock:
            self._over = True

    def end(self) -> None:
        """Let the threads end."""
        for one in self._threads:
            one.join(30)
        self.client.close()

    def lost(self, url: str) -> int:
        """How many acknowledged steps the server at `url` does not have."""
        client: Any = Redis.from_url(url, decode_responses=True)
        try:
            names = {name for name, _ in self.acknowledged}
            known = {name: set(client.hkeys(self.store.hash_key(name))) for name in names}
            return sum(key not in known[name] for name, key in self.acknowledged)
        finally:
            client.close()


class NotTraced(Exception):
    """This machine does not let one process watch another."""


class Watched:
    """What of a server's append-only file was synced, as strace saw it: a power cut may lose all the rest."""

    def __init__(self, pid: int, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "strace"
        self._before = {path: path.stat().st_size for path in self._files()}
        traced = "trace=write,fdatasync,fsync"
        words = ["strace", "-f", "-y", "-s", "0", "-e", traced, "-o", str(self.log), "-p", str(pid)]
        self._process = subprocess.Popen(words, stderr=subprocess.DEVNULL, start_new_session=True)
        end = time.monotonic() + 20
        while not all(
            re.search(r"TracerPid:\t[1-9]", one.read_text())
            for one in Path(f"/proc/{pid}/task").glob("*/status")
        ):
            if time.monotonic() > end or self._process.poll() is not None:
                raise NotTraced("strace may not attach to the server")
            time.sleep(0.01)

    def _files(self) -> list[Path]:
        return [path for path in self.folder.rglob("*.aof") if path.is_file()]

    def cut(self) -> int:
        """Drop from the files what was not synced; how many bytes."""
        self._process.wait(20)
        size = {str(path): length for path, length in self._before.items()}
        synced, asked = dict(size), dict[tuple[str, str], int]()
        for line in self.log.read_text(errors="replace").splitlines():
            thread = line.split(maxsplit=1)[0]
            if found := re.search(r"(write|fdatasync|fsync)\(\d+<([^>]+\.aof)>", line):
                call, path = found[1], found[2]
                size.setdefault(path, 0)
                if call == "write":
                    wrote = re.search(r"= (\d+)$", line)
                    if wrote:
                        size[path] += int(wrote[1])
                    else:
                        asked[thread, "write"] = 0
                        asked[thread, path] = 0
                elif "unfinished" in line:
                    asked[thread, path] = size[path]
                elif line.rstrip().endswith("= 0"):
                    synced[path] = size[path]
            elif found := re.search(r"<\.\.\. (write|fdatasync|fsync) resumed.*= (\d+)$", line):
                mine = [path for who, path in asked if who == thread and path != "write"]
                for path in mine:
                    began = asked.pop((thread, path))
                    if found[1] == "write":
                        size[path] += int(found[2])
                    else:
                        synced[path] = max(synced.get(path, 0), began)
                asked.pop((thread, "write"), None)
        dropped = 0
        for path in self._files():
            keep = min(path.stat().st_size, synced.get(str(path), 0))
            dropped += path.stat().st_size - keep
            os.truncate(path, keep)
        return dropped


@dataclass(frozen=True)
class Accident:
    """A row: what happens, with which settings, and which levels promise to lose nothing."""

    name: str
    happens: Callable[[Replicated, Writers, int, Watched | None], str]
    promised: tuple[Durability, ...] = ()
    fsync: str = "always"
    options: tuple[str, ...] = field(default=())
    needs: str | None = None


def killed(both: Replicated, writers: Writers, count: int, watched: Watched | None) -> str:
    """The master's process dies and is started again."""
    writers.until(count)
    writers.accident(both.master.kill)
    both.master.restart()
    return both.master.url


def power_cut(both: Replicated, writers: Writers, count: int, watched: Watched | None) -> str:
    """The master's machine dies: what was not synced is gone."""
    writers.until(count)
    writers.accident(both.master.kill)
    assert watched is not None
    watched.cut()
    both.master.restart()
    return both.master.url


def failed_over(both: Replicated, writers: Writers, count: int, watched: Watched | None) -> str:
    """The master is gone, and its replica takes over."""
    writers.until(count)
    writers.accident(both.master.kill)
    both.promote()
    return both.replica.url


def failed_over_late(both: Replicated, writers: Writers, count: int, watched: Watched | None) -> str:
    """The same, where the replica had hung for a while."""
    writers.until(count)
    both.pause()
    before, end = len(writers.acknowledged), time.monotonic() + 20
    while len(writers.acknowledged) < before + 5 * count and time.monotonic() < end:
        time.sleep(0.01)
        if writers.refused >= THREADS:
            break
    writers.accident(both.master.kill)
    both.resume()
    both.promote()
    return both.replica.url


BARE = ("--appendonly", "no")
ACCIDENTS = (
    Accident("killed and restarted, `appendfsync always`", killed, ("disk",)),
    Accident("killed and restarted, `appendfsync everysec`", killed, ("disk",), "everysec"),
    Accident("killed and restarted, `appendfsync no`", killed, ("disk",), "no"),
    Accident("killed and restarted, without an append-only file", killed, (), options=BARE),
    Accident("power cut, `appendfsync always`", power_cut, ("disk",), needs="strace"),
    Accident("power cut, `appendfsync everysec`", power_cut, ("disk",), "everysec", needs="strace"),
    Accident("power cut, `appendfsync no`", power_cut, ("disk",), "no", needs="strace"),
    Accident("failover to a replica that keeps up", failed_over, ("replicas",)),
    Accident("failover to a replica that had hung", failed_over_late, ("replicas",)),
    Accident(
        "failover to a replica that had hung, without append-only files",
        failed_over_late,
        ("replicas",),
        options=BARE,
    ),
)


def cell(server: str, accident: Accident, level: Durability, count: int) -> tuple[str, bool]:
    """What one run came to, and whether a promise was kept."""
    if accident.needs is not None and shutil.which(accident.needs) is None:
        return f"not run: needs {accident.needs}", True
    with tempfile.TemporaryDirectory(prefix="durably-loss-") as name:
        folder = Path(name)
        with replicated.start(server, folder, fsync=accident.fsync, options=accident.options) as both:
            try:
                watched = None if accident.needs is None else Watched(both.master.pid, folder / "master")
            except NotTraced as error:
                return f"not run: {error}", True
            writers = Writers(both.url, level)
            try:
                writers.start()
            except DurabilityUnsupported:
                writers.end()
                return "refused", True
            url = accident.happens(both, writers, count, watched)
            writers.end()
            lost, of = writers.lost(url), len(writers.acknowledged)
    promised = level in accident.promised
    text = f"{lost} of {of}"
    if promised:
        text = f"**{text}**"
    if writers.refused:
        text += f", {writers.refused} not acknowledged"
    return text, not (promised and lost)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("servers", nargs="*", default=None, help="which (default: embedded, redis-8.10)")
    parser.add_argument("--write", action="store_true", help="write the table into the docs")
    parser.add_argument("--count", type=int, default=1000, help="acknowledged steps before the accident")
    parser.add_argument("--only", default="", help="accidents whose name holds this text")
    options = parser.parse_args()
    lines: list[str] = []
    kept = True
    for server in options.servers or ["embedded", "redis-8.10"]:
        kind = "Valkey" if server == "embedded" or server.startswith("valkey") else "Redis"
        lines += [f"{kind} {servers.version_of(servers.binary(server))}:", ""]
        lines += [f"| accident | {' | '.join(f'`{one}`' for one in LEVELS)} |", "|---|---|---|---|"]
        print("\n".join(lines[-4:]), flush=True)
        for accident in ACCIDENTS:
            if options.only not in accident.name:
                continue
            cells = []
            for level in LEVELS:
                text, fine = cell(server, accident, level, options.count)
                kept = kept and fine
                cells.append(text)
            lines.append(f"| {accident.name} | {' | '.join(cells)} |")
            print(lines[-1], flush=True)
        lines.append("")
    if options.write:
        before, rest = PAGE.read_text().split(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n\n" + "\n".join(lines) + f"\n{END}{rest.split(END)[1]}")
    print("every promise was kept" if kept else "A PROMISE WAS BROKEN")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
