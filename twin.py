"""Generates the blocking twin from the async source, with `unasync` and the rules below: `nox -s twin [-- --check]`.

What is generated is committed and never edited. Files written by hand, one per flavour, are named in `PLACES`.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import unasync

ROOT = Path(__file__).parent

REPLACEMENTS = {
    "durably_redis_async": "durably_redis_sync",
    "support_async": "support_sync",
    "aclose": "close",
    "aclosing": "closing",
    "redis_async": "redis_sync",
}
"""Names, token by token, beside what `unasync` itself knows. One that no file uses is an error."""


@dataclass(frozen=True)
class Place:
    """A folder whose files are transformed into another. `by_hand`: file names that each side has of its own."""

    source: str
    twin: str
    by_hand: frozenset[str] = frozenset()
    only_here: frozenset[str] = frozenset()
    only_there: frozenset[str] = frozenset()

    def sources(self, root: Path) -> list[Path]:
        """What is transformed, relative to `root`."""
        skipped = self.by_hand | self.only_here
        return sorted(
            path.relative_to(root)
            for path in (root / self.source).rglob("*.py")
            if path.name not in skipped and "__pycache__" not in path.parts
        )

    def target(self, source: Path) -> Path:
        """Where the twin of `source` is."""
        return Path(self.twin) / source.relative_to(self.source)


PLACES = (
    Place(
        "packages/redis_async/src/durably_redis_async",
        "packages/redis_sync/src/durably_redis_sync",
        by_hand=frozenset(
            {"_concurrency.py", "_client.py", "_cluster.py", "_patience.py", "_gathering.py", "_transport.py"}
        ),
        only_there=frozenset({"celery.py"}),
    ),
    Place(
        "tests/redis_async",
        "tests/redis_sync",
        only_here=frozenset(
            {
                "test_concurrency.py",
                "test_cancellation.py",
                "test_processes.py",
                "process_child.py",
                "test_scheduler_model.py",
            }
        ),
        only_there=frozenset({"test_threads.py", "test_celery.py"}),
    ),
    Place(
        "docs/examples/archive",
        "docs/examples/archive_sync",
        by_hand=frozenset({"connection.py", "worker.py"}),
        only_here=frozenset({"chaos.py", "drive.py"}),
    ),
)


def header(source: Path) -> str:
    """The first line of a generated file."""
    return f"# Generated from {source.as_posix()} by twin.py. Edit that file.\n"


def generate(root: Path, into: Path) -> list[Path]:
    """Write every twin of `root` under `into`; the files written, relative to it. Raises `ValueError` for a rule
    that nothing uses and for a result that does not compile."""
    written: list[Path] = []
    used: set[str] = set()
    here = Path.cwd()
    os.chdir(root)  # unasync replaces its folder's name anywhere in a path: give it relative ones
    try:
        with tempfile.TemporaryDirectory() as fresh:
            for place in PLACES:
                rule = unasync.Rule(place.source + "/", f"{fresh}/{place.twin}/", REPLACEMENTS)
                sources = place.sources(root)
                unasync.unasync_files([path.as_posix() for path in sources], [rule])
                for path in sources:
                    text = path.read_text(encoding="utf-8")
                    used |= {name for name in REPLACEMENTS if name in text}
                    target = place.target(path)
                    made = (Path(fresh) / target).read_text(encoding="utf-8")
                    compile(made, target.as_posix(), "exec")
                    (into / target).parent.mkdir(parents=True, exist_ok=True)
                    (into / target).write_text(header(path) + made, encoding="utf-8")
                    written.append(target)
    finally:
        os.chdir(here)
    unused = sorted(set(REPLACEMENTS) - used)
    if unused:
        raise ValueError(f"no file uses the rules for {unused}: take them out")
    files = [str(into / target) for target in written]
    ruff = [sys.executable, "-m", "ruff"]
    config = ["--config", str(root / "pyproject.toml")]
    subprocess.run([*ruff, "check", *config, "--select", "I,F401", "--fix", "-q", *files], check=True)
    subprocess.run([*ruff, "format", *config, "-q", *files], check=True)
    return written


def present(root: Path) -> set[Path]:
    """Every Python file in the twins' folders that is not written by hand."""
    return {
        path.relative_to(root)
        for place in PLACES
        for path in (root / place.twin).rglob("*.py")
        if path.name not in place.by_hand | place.only_there and "__pycache__" not in path.parts
    }


def differences(root: Path) -> list[str]:
    """What is committed and differs from what the source gives: compared both ways, byte by byte."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(root / "pyproject.toml", folder)
        made = set(generate(root, Path(folder)))
        there = present(root)
        found = [f"{path}: has no source" for path in sorted(there - made)]
        found += [f"{path}: is missing" for path in sorted(made - there)]
        for path in sorted(made & there):
            if (Path(folder) / path).read_bytes() != (root / path).read_bytes():
                found.append(f"{path}: differs from what its source gives")
        return found


def main() -> int:
    """Generate, or compare with `--check`; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare only; exit 1 when something differs")
    if parser.parse_args().check:
        found = differences(ROOT)
        for line in found:
            print(line)
        print(f"{len(found)} differences" if found else "the twin is current")
        return 1 if found else 0
    for path in present(ROOT):
        (ROOT / path).unlink()
    print(f"{len(generate(ROOT, ROOT))} files generated")
    return 0


if __name__ == "__main__":
    sys.exit(main())
