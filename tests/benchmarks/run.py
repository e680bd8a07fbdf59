"""Runs the measures of `job.py` side by side, alternating, and prints medians, spread and ratios. Ours, about ourselves.

Absolute figures depend on the machine and on what else it does: only ratios of one run mean anything.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import platform
import statistics
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

from durably import embedded

JOB = Path(__file__).parent / "job.py"
PLANS: dict[str, list[tuple[str, list[str]]]] = {
    "throughput, limit 20": [("throughput", ["--limit", "20"])],
    "throughput, limit 100": [("throughput", ["--limit", "100"])],
    "latency": [("latency", ["--count", "60"])],
    "idle": [("idle", [])],
}


def versions(url: str) -> dict[str, str]:
    """What took part."""
    from redis import Redis

    info: Any = Redis.from_url(url, decode_responses=True).info("server")
    found = {
        "python": platform.python_version(),
        "server": str(info.get("valkey_version") or info["redis_version"]),
    }
    for name in ("redis", "hiredis", "durably", "without-durability-redis"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "none"
    return found


def once(measure: str, implementation: str, scheduler: str, options: list[str], url: str) -> dict[str, float]:
    """One run in a fresh process."""
    command = [sys.executable, str(JOB), measure, implementation, scheduler, "--url", url, *options]
    said = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if said.returncode:
        raise RuntimeError(said.stderr)
    result: dict[str, float] = json.loads(said.stdout.splitlines()[-1])
    return result


def table(results: dict[str, dict[str, dict[str, list[float]]]], base: str) -> str:
    """Markdown: one row per measure, scheduler and figure; medians with their range, and the ratio to `base`."""
    lines = [
        f"| measure | figure | implementation | median | range | over {base} |",
        "|---|---|---|---|---|---|",
    ]
    for what, figures in results.items():
        for figure, by in figures.items():
            compared = statistics.median(by[base]) if base in by else None
            for implementation, values in by.items():
                median = statistics.median(values)
                ratio = "" if not compared else f"{median / compared:.2f}"
                lines.append(
                    f"| {what} | {figure} | {implementation} | {median:.3g} "
                    f"| {min(values):.3g} to {max(values):.3g} | {ratio} |"
                )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7, help="alternating runs of each (default 7)")
    parser.add_argument("--count", type=int, default=2000, help="workflows per run (default 2000)")
    parser.add_argument("--only", default="", help="measures whose name holds this text")
    parser.add_argument("--url", help="a server to use (default: the embedded one)")
    parser.add_argument("--out", type=Path, default=Path("bench"), help="where the tables are written")
    options = parser.parse_args()
    implementations = ["ours", "blocking"]
    if importlib.util.find_spec("without_durability_redis") is not None:
        implementations.append("peer")
    server = None if options.url else embedded.start(tcp=True)
    url = options.url or (server.url if server else "")
    results: dict[str, dict[str, dict[str, list[float]]]] = {}
    try:
        known = versions(url)
        for _ in range(options.rounds):
            for what, plan in PLANS.items():
                if options.only not in what:
                    continue
                for scheduler in ("stream", "set"):
                    figures = results.setdefault(
                        f"{what}, {scheduler}", defaultdict(lambda: defaultdict(list))
                    )
                    for measure, words in plan:
                        extra = ["--count", str(options.count)] if measure == "throughput" else []
                        for implementation in implementations:
                            got = once(measure, implementation, scheduler, [*words, *extra], url)
                            for figure, value in got.items():
                                figures[figure][implementation].append(value)
    finally:
        if server is not None:
            server.stop()
    base = "peer" if "peer" in implementations else "ours"
    text = f"{', '.join(f'{name} {version}' for name, version in known.items())}\n\n{table(results, base)}\n"
    print(text)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "bench.md").write_text(text)
    (options.out / "bench.json").write_text(json.dumps({"versions": known, "results": results}, indent=1))


if __name__ == "__main__":
    main()
