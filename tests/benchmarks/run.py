"""Runs the measures of `job.py` side by side, alternating, and prints medians, spread and ratios. Ours, about ourselves.

Absolute figures depend on the machine and on what else it does: only ratios of one run mean anything. The ratio is taken
round by round, and then its median and range. `--quick` takes a minute. `--check` fails where a figure falls short of its
goal by more than 15 %. `--write` puts the table into `docs/benchmarks.md`.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import os
import platform
import re
import statistics
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from durably import embedded

JOB = Path(__file__).parent / "job.py"
PAGE = Path(__file__).parents[2] / "docs" / "benchmarks.md"
BOTH = ("stream", "set")
SLACK = 0.15


@dataclass(frozen=True)
class Plan:
    """One measure: its words for `job.py`, the schedulers it is taken with, whether `--quick` takes it, and how many
    rounds it is worth at the most."""

    measure: str
    words: tuple[str, ...] = ()
    schedulers: tuple[str, ...] = BOTH
    quick: bool = False
    most: int = 100


PLANS = {
    "throughput, limit 20": Plan("throughput", ("--limit", "20"), quick=True),
    "throughput, limit 100": Plan("throughput", ("--limit", "100"), quick=True),
    "latency": Plan("latency", ("--count", "60"), most=3),
    "idle": Plan("idle", most=3),
    "imports": Plan("imports", schedulers=("stream",), quick=True),
    "load of 10,000 steps": Plan("load", schedulers=("stream",), quick=True),
}

OVER_PEER = {("ours", "20"): 3.0, ("ours", "100"): 4.5, ("blocking", "20"): 2.0}
"""How many times the peer's workflows per second each flavour is to reach, by limit."""

SERVER_MS = 0.12
"""What a workflow may cost the server, in ms of CPU."""

LOAD_MS = 15.0
"""What reading a checkpoint of 10,000 steps may take."""

Found = dict[str, dict[str, dict[str, list[float]]]]
"""By measure, figure and implementation: one value a round."""


def versions(url: str) -> dict[str, str]:
    """What took part."""
    from redis import Redis

    client = Redis.from_url(url, decode_responses=True)
    info: Any = client.info("server")
    client.close()
    found = {
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "server": f"valkey {info['valkey_version']}"
        if "valkey_version" in info
        else f"redis {info['redis_version']}",
    }
    for name in ("redis", "hiredis", "msgspec", "durably", "durably-redis-async", "without-durability-redis"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "none"
    return found


def once(plan: Plan, implementation: str, scheduler: str, words: list[str], url: str) -> dict[str, float]:
    """One run in a fresh process, on an empty server."""
    command = [sys.executable, str(JOB), plan.measure, implementation, scheduler, "--url", url, *words]
    said = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if said.returncode:
        raise RuntimeError(said.stderr)
    result: dict[str, float] = json.loads(said.stdout.splitlines()[-1])
    return result


def measured(plans: dict[str, Plan], implementations: list[str], rounds: int, count: int, url: str) -> Found:
    """All figures. Who goes first changes from round to round."""
    found: Found = {}
    for turn in range(rounds):
        order = (
            implementations[turn % len(implementations) :] + implementations[: turn % len(implementations)]
        )
        for what, plan in plans.items():
            if turn >= plan.most:
                continue
            words = [*plan.words, *(["--count", str(count)] if plan.measure == "throughput" else [])]
            for scheduler in plan.schedulers:
                name = f"{what}, {scheduler}" if len(plan.schedulers) > 1 else what
                figures = found.setdefault(name, defaultdict(lambda: defaultdict(list)))
                for implementation in order:
                    for figure, value in once(plan, implementation, scheduler, words, url).items():
                        figures[figure][implementation].append(value)
    return found


def ratios(values: list[float], base: list[float]) -> list[float]:
    """Round by round."""
    return [value / other for value, other in zip(values, base, strict=True) if other]


def table(found: Found, base: str, implementations: list[str]) -> str:
    """Markdown: one row per measure, figure and implementation; medians with their range, and the ratio to `base`."""
    lines = [
        f"| measure | figure | implementation | median | range | over {base} | range |",
        "|---|---|---|---|---|---|---|",
    ]
    for what, figures in found.items():
        for figure, by in figures.items():
            for implementation in implementations:
                values = by[implementation]
                cells = [what, figure, implementation, f"{statistics.median(values):.3g}"]
                cells.append(f"{min(values):.3g} to {max(values):.3g}")
                over = ratios(values, by[base])
                if implementation == base or not over:
                    cells += ["", ""]
                else:
                    cells += [f"{statistics.median(over):.2f}", f"{min(over):.2f} to {max(over):.2f}"]
                lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def shortfalls(found: Found, base: str) -> list[str]:
    """What misses its goal by more than `SLACK`. Raises `ValueError` where there is nothing to compare with."""
    if base != "peer":
        raise ValueError("the goals are ratios over the peer, which is not installed: see nox -s bench")
    missed: list[str] = []
    for what, figures in found.items():
        for (implementation, limit), goal in OVER_PEER.items():
            if what.startswith(f"throughput, limit {limit},"):
                by = figures["workflows/s"]
                reached = statistics.median(ratios(by[implementation], by[base]))
                if reached < goal * (1 - SLACK):
                    missed.append(f"{what}: {implementation} is {reached:.2f} times the peer, not {goal:g}")
        for figure, most in (("server CPU ms", SERVER_MS), ("load ms", LOAD_MS)):
            for implementation in ("ours", "blocking"):
                if figure in figures:
                    spent = statistics.median(figures[figure][implementation])
                    if spent > most * (1 + SLACK):
                        missed.append(f"{what}: {implementation}: {figure} {spent:.3g}, not {most:g}")
    return missed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, help="alternating runs of each (default 7, with --quick 3)")
    parser.add_argument("--count", type=int, help="workflows per run (default 2000, with --quick 1000)")
    parser.add_argument("--only", default="", help="measures whose name holds this text")
    parser.add_argument("--url", help="a server to use (default: the embedded one)")
    parser.add_argument("--out", type=Path, default=Path("bench"), help="where the tables are written")
    parser.add_argument("--quick", action="store_true", help="what can be measured in a minute")
    parser.add_argument("--check", action="store_true", help="exit with 1 where a goal is missed")
    parser.add_argument("--write", action="store_true", help="put the table into docs/benchmarks.md")
    options = parser.parse_args()
    rounds = options.rounds or (3 if options.quick else 7)
    count = options.count or (1000 if options.quick else 2000)
    plans = {
        what: plan
        for what, plan in PLANS.items()
        if options.only in what and (plan.quick or not options.quick)
    }
    implementations = ["ours", "blocking"]
    if importlib.util.find_spec("without_durability_redis") is not None:
        implementations.append("peer")
    base = "peer" if "peer" in implementations else "ours"
    server = None if options.url else embedded.start(tcp=True)
    url = options.url or (server.url if server else "")
    try:
        known = versions(url)
        found = measured(plans, implementations, rounds, count, url)
    finally:
        if server is not None:
            server.stop()
    said = f"{', '.join(f'{name} {version}' for name, version in known.items())}; {rounds} rounds of {count}."
    text = f"{said}\n\n{table(found, base, implementations)}\n"
    print(text)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "bench.md").write_text(text)
    results = {"versions": known, "rounds": rounds, "count": count, "base": base, "results": found}
    (options.out / "bench.json").write_text(json.dumps(results, indent=1) + "\n")
    if options.write:
        page = PAGE.read_text()
        block = f"<!-- bench: begin -->\n\n{text}\n<!-- bench: end -->"
        PAGE.write_text(
            re.sub("<!-- bench: begin -->.*<!-- bench: end -->", lambda _: block, page, flags=re.DOTALL)
        )
    if options.check:
        missed = shortfalls(found, base)
        print("\n".join(missed) or "every goal is reached")
        return 1 if missed else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
