"""The tests of both flavours on every server, and what came of them as a table: `nox -s matrix`.

Run alone: `python tests/matrix.py [--write] [SERVER...]`. A server that could not be had, or not be started, is a row
that says so, and a failure where it is promised. `--write` puts each row into the docs as soon as it is known, in the
place of the row that the server had there.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml
from collections import Counter
from pathlib import Path

import servers
from durably.embedded import EmbeddedError

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "servers.md"
BEGIN, END = "<!-- matrix: begin -->", "<!-- matrix: end -->"
FLAVOURS = {"async": "redis_async", "sync": "redis_sync", "both": ""}


def flavour_of(test: xml.Element) -> str:
    """Whose test it is: of one flavour, or of what both share."""
    where = test.get("classname", "")
    return next((name for name, folder in FLAVOURS.items() if folder and folder in where), "both")


def run(server: str, words: list[str]) -> tuple[int, dict[str, Counter[str]], list[str]]:
    """pytest's exit code, counts of outcomes by flavour, and the reasons of skips.

    On a cluster, the tests of the two flavours: the others know nothing of clusters.
    """
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder) / "told.xml"
        command = [sys.executable, "-m", "pytest", "-q", f"--junitxml={told}", *words]
        node = servers.clustered(server)
        env = {**os.environ, "DURABLY_TEST_SERVER": server if node is None else f"cluster:{node}"}
        if node is not None:
            command += [f"tests/{folder}" for folder in FLAVOURS.values() if folder]
        code = subprocess.run(command, cwd=ROOT, env=env).returncode
        counts: dict[str, Counter[str]] = {name: Counter() for name in FLAVOURS}
        reasons: list[str] = []
        for test in xml.parse(told).iter("testcase"):
            children = {child.tag: child for child in test}
            if "failure" in children or "error" in children:
                outcome = "failed"
            elif "skipped" in children:
                outcome = "skipped"
                told_why = str(children["skipped"].text or children["skipped"].get("message"))
                reasons.append(re.sub(r"^\S+:\d+: ", "", told_why.split("Skipped: ")[-1]).strip("() '\n"))
            else:
                outcome = "passed"
            counts[flavour_of(test)][outcome] += 1
        return code, counts, sorted(set(reasons))


HEAD = ["| server | version | async | sync | both | skipped, and why |", "|---|---|---|---|---|---|"]


def server_of(row: str) -> str:
    """Which server a row of the table is about."""
    return row.split("|")[1].strip()


def write(row: str) -> None:
    """Put a row into the docs: rows of other servers stay as they are."""
    before, rest = PAGE.read_text().split(BEGIN)
    table, after = rest.split(END)
    rows = {server_of(line): line for line in table.splitlines() if line.startswith("|") and line not in HEAD}
    rows[server_of(row)] = row
    order = [*servers.SERVERS, *servers.CLUSTERS]
    named = sorted((name for name in rows if name in order), key=order.index)
    PAGE.write_text(
        "\n".join([f"{before}{BEGIN}\n", *HEAD, *(rows[name] for name in named), f"\n{END}{after}"])
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("servers", nargs="*", help="which (default: all)")
    parser.add_argument("--write", action="store_true", help="write the rows into the docs")
    parser.add_argument("--processes", default="3", help="how many test processes (default 3)")
    options = parser.parse_args()
    lines = list(HEAD)
    bad = 0
    try:
        names = servers.named(options.servers or [*servers.SERVERS, *servers.CLUSTERS])
    except servers.Missing as error:
        parser.error(str(error))
    for name in names:
        try:
            with servers.start(name) as server:
                version = servers.version(server).split()[1]
        except (servers.Missing, EmbeddedError) as error:
            told = " ".join(str(error).split()).replace("|", "/")
            lines.append(f"| {name} | could not be had: {told} | | | | |")
            print(lines[-1], flush=True)
            if options.write:
                write(lines[-1])
            bad += name in servers.PROMISED
            continue
        code, counts, reasons = run(name, ["-n", options.processes])
        bad += code != 0
        cells = [
            f"{count['passed']} passed" + (f", {count['failed']} failed" if count["failed"] else "")
            for count in counts.values()
        ]
        skipped = sum(count["skipped"] for count in counts.values())
        why = "; ".join(reasons)
        lines.append(f"| {name} | {version} | {' | '.join(cells)} | {skipped}: {why} |")
        print(lines[-1], flush=True)
        if options.write:
            write(lines[-1])
    print("\n".join(lines))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
