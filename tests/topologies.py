"""Servers as operators set them up: Sentinel with a failover, TLS with client certificates, a unix socket.

Everything is started through `EmbeddedServer`, so it ends by its pid, also when the test process is killed.
"""

from __future__ import annotations

import contextlib
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import servers
import trustme
from durably.embedded import EmbeddedError, EmbeddedServer
from durably.embedded_cluster import EmbeddedCluster, say
from redis import Redis
from redis.crc import key_slot
from redis.exceptions import RedisError

TLS_SERVERS = ("redis-7.4", "redis-8.0", "valkey-8.0")
"""Servers that speak TLS, tried in this order where the chosen one does not: the first is from PyPI."""


class Topology(Protocol):
    """Servers of which one may be killed while clients go on. A `with` block starts and stops them."""

    def start(self) -> None:
        """Bring every server up, and wait until replicas follow."""
        ...

    def stop(self) -> None:
        """End every server. Harmless to repeat."""
        ...

    def client(self, support: Any) -> Any:
        """A client of them; `support`: the flavour's support module."""
        ...

    def kill_master(self) -> None:
        """End a master as a crash would."""
        ...

    def promoted(self) -> bool:
        """Whether another has taken its place."""
        ...

    def wait_promoted(self, timeout: float = 60.0) -> None:
        """Wait until another has taken its place, for `timeout` seconds at most. Raises `TimeoutError`."""
        ...


class SentinelTopology:
    """A master, two replicas and three sentinels, which promote a replica a second or two after they miss the master.

    `down_after`: how long they miss it before they say so, in milliseconds. Sentinels connect again once a second at the
    most, so less than that has them take a promoted server for dead at once, and promote another.
    """

    name = "durably"

    def __init__(self, server: str, down_after: int = 1500) -> None:
        self.server = server
        self.down_after = down_after
        self.sentinels: list[tuple[str, int]] = []
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._running: dict[int, EmbeddedServer] = {}
        self._killed: int | None = None
        self._kept: list[socket.socket] = []

    def __enter__(self) -> SentinelTopology:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Bring every server up, and wait until replicas and sentinels know each other."""
        try:
            self._start()
        except BaseException:
            self.stop()
            raise

    def _start(self) -> None:
        binary = servers.binary(self.server)
        self._folder = tempfile.TemporaryDirectory(prefix="durably-sentinel-")
        self._killed = None
        master = self._begin(binary, "--repl-diskless-sync-delay", "0")
        following = ("--repl-diskless-sync-delay", "0", "--replicaof", "127.0.0.1", str(master))
        replicas = [self._begin(binary, *following) for _ in range(2)]
        for one in replicas:
            until(lambda port=one: _info(port).get("master_link_status") == "up", f"{one} follows")  # type: ignore[misc]
        self.sentinels = [("127.0.0.1", self._begin(self._sentinel(binary, n, master))) for n in range(3)]
        for _, port in self.sentinels:
            until(lambda port=port: self._complete(port), f"sentinel {port} knows all")  # type: ignore[misc]

    def _begin(self, binary: Path, *options: str) -> int:
        started = EmbeddedServer(tcp=True, binary=binary, options=options)
        self._running[started.port] = started
        return started.port

    def _sentinel(self, binary: Path, number: int, master: int) -> Path:
        """A program that starts a sentinel, which keeps a file of what it knows."""
        assert self._folder is not None
        known = Path(self._folder.name) / f"sentinel-{number}.conf"
        lines = [
            f"sentinel monitor {self.name} 127.0.0.1 {master} 2",
            f"sentinel down-after-milliseconds {self.name} {self.down_after}",
            f"sentinel failover-timeout {self.name} 6000",
            f"sentinel parallel-syncs {self.name} 2",
        ]
        known.write_text("\n".join(lines) + "\n")
        program = known.with_suffix("")
        program.write_text(f'#!/bin/sh\nexec "{binary}" "{known}" --sentinel "$@"\n')
        program.chmod(0o755)
        return program

    def _complete(self, port: int) -> bool:
        with _asking(port) as asked:
            masters: Any = asked.sentinel_masters()
        said = masters[self.name]
        return int(said["num-slaves"]) == 2 and int(said["num-other-sentinels"]) == 2

    def stop(self) -> None:
        """End every server, sentinels first. Harmless to repeat."""
        for one in reversed(list(self._running.values())):
            one.stop()
        self._running.clear()
        for kept in self._kept:
            kept.close()
        self._kept.clear()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def client(self, support: Any) -> Any:
        """A client of whoever is the master."""
        return support.sentinel_client(self.sentinels, self.name)

    def master(self) -> int:
        """The port of the master, as most sentinels say. Raises `TimeoutError` where they do not agree for long."""
        found: list[int] = []

        def agreed() -> bool:
            said = [self._told(port) for _, port in self.sentinels]
            found[:] = [one for one in said if one is not None and said.count(one) > 1]
            return bool(found)

        until(agreed, "sentinels agree on the master")
        return found[0]

    def _told(self, port: int) -> int | None:
        with contextlib.suppress(RedisError), _asking(port) as asked:
            masters: Any = asked.sentinel_masters()  # some redis-py 6 cannot ask for one
            return int(masters[self.name]["port"])
        return None

    def kill_master(self) -> None:
        """End the master as a crash would."""
        self._killed = self.master()
        self._running[self._killed].kill()
        # nobody else may get its address: sentinels would make a replica of whatever answers there
        kept = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._kept.append(kept)
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        kept.bind(("127.0.0.1", self._killed))

    def switch(self) -> None:
        """Have a replica promoted while the master lives: it becomes a replica, with its clients still connected."""
        self._killed = self.master()
        with _asking(self.sentinels[0][1]) as asked:
            asked.sentinel_failover(self.name)

    def promoted(self) -> bool:
        """Whether most sentinels name another master than the last one, and it says so itself."""
        said = [self._told(port) for _, port in self.sentinels]
        others = [one for one in said if one is not None and one != self._killed and said.count(one) > 1]
        return bool(others) and _info(others[0]).get("role") == "master"

    def wait_promoted(self, timeout: float = 60.0) -> None:
        """Wait until another is the master, for `timeout` seconds at most. Raises `TimeoutError`."""
        until(self.promoted, "a replica is promoted", timeout)


class ClusterTopology:
    """Three masters with a replica each, which takes over a second or so after its master died.

    `node_timeout`: how long a node is silent before it counts as down, in milliseconds. `replicas`: of each master; of
    two, one is left to follow the other.
    """

    def __init__(self, server: str, node_timeout: int = 1000, replicas: int = 1) -> None:
        self.server = server
        self.node_timeout = node_timeout
        self.replicas = replicas
        self.slot = 0
        self._cluster: EmbeddedCluster | None = None
        self._killed: EmbeddedServer | None = None

    @property
    def cluster(self) -> EmbeddedCluster:
        """The nodes. Raises `EmbeddedError` before `start`."""
        if self._cluster is None:
            raise EmbeddedError("the cluster does not run")
        return self._cluster

    def start(self) -> None:
        """Bring every node up, and wait until all know each other."""
        self._cluster = EmbeddedCluster(
            replicas=self.replicas,
            binary=servers.binary(self.server),
            node_timeout=self.node_timeout,
            patience=60,
        )
        self._killed = None

    def stop(self) -> None:
        """End every node. Harmless to repeat."""
        if self._cluster is not None:
            self._cluster.stop()

    def aim(self, key: str) -> None:
        """Say whose master is to die: the one that owns `key`."""
        self.slot = key_slot(key.encode())

    def client(self, support: Any) -> Any:
        """A client of the whole cluster."""
        return support.cluster_client(self.cluster.url)

    def replicated(self) -> None:
        """Wait until each replica has what its master had when this began."""
        for master in self.cluster.masters():
            wanted = int(say(master.port, "ROLE")[1])
            until(lambda port=master.port, at=wanted: _followed(port, at), "a replica has it all")  # type: ignore[misc]

    def kill_master(self) -> None:
        """End the master aimed at as a crash would."""
        self._killed = self.cluster.owner(self.slot)
        self._killed.kill()

    def promoted(self) -> bool:
        """Whether a replica has taken over its slots."""
        return len(self.cluster.masters()) == 3

    def wait_promoted(self, timeout: float = 60.0) -> None:
        """Wait until one has, for `timeout` seconds at most. Raises `TimeoutError`."""
        until(self.promoted, "a replica is promoted", timeout)


def _followed(port: int, offset: int) -> bool:
    replicas = say(port, "ROLE")[2]
    return bool(replicas) and all(int(replica[2]) >= offset for replica in replicas)


def until(said: Callable[[], bool], what: str, timeout: float = 60.0) -> None:
    """Wait until `said` says yes. Raises `TimeoutError` after `timeout` seconds."""
    end = time.monotonic() + timeout
    while not said():
        if time.monotonic() > end:
            raise TimeoutError(f"not within {timeout} s: {what}")
        time.sleep(0.02)


@contextlib.contextmanager
def _asking(port: int) -> Iterator[Redis]:
    asked = Redis(host="127.0.0.1", port=port, decode_responses=True, socket_timeout=5)
    try:
        yield asked
    finally:
        asked.close()


def _info(port: int) -> dict[str, Any]:
    with contextlib.suppress(RedisError), _asking(port) as asked:
        said: dict[str, Any] = asked.info("replication")
        return said
    return {}


@dataclass(frozen=True)
class Certificates:
    """Files of one authority's: its own certificate, and one with its key for the server and for a client."""

    authority: Path
    server: tuple[Path, Path]
    client: tuple[Path, Path]

    @property
    def options(self) -> dict[str, Any]:
        """What redis-py is told to use them."""
        certificate, key = self.client
        return {
            "ssl_ca_certs": str(self.authority),
            "ssl_certfile": str(certificate),
            "ssl_keyfile": str(key),
        }


def certificates(folder: Path) -> Certificates:
    """Fresh ones, in `folder`."""
    authority = trustme.CA()
    folder.mkdir(parents=True, exist_ok=True)
    authority.cert_pem.write_to_path(str(folder / "authority.pem"))
    made: dict[str, tuple[Path, Path]] = {}
    for name, identity in (("server", "127.0.0.1"), ("client", "worker@example.org")):
        issued = authority.issue_cert(identity)
        made[name] = (folder / f"{name}.pem", folder / f"{name}.key")
        issued.cert_chain_pems[0].write_to_path(str(made[name][0]))
        issued.private_key_pem.write_to_path(str(made[name][1]))
    return Certificates(folder / "authority.pem", made["server"], made["client"])


@dataclass(frozen=True)
class TlsServer:
    """A server whose only port is a TLS one that asks for certificates. `name`: which of `servers.py` it is."""

    name: str
    url: str
    certificates: Certificates


@contextlib.contextmanager
def tls_server(server: str, folder: Path) -> Iterator[TlsServer]:
    """`server` with TLS, or the next one that speaks it. Raises `servers.Missing`, with what each of them said."""
    made = certificates(folder)
    said = []
    for name in dict.fromkeys((server, *TLS_SERVERS)):
        port = _free_port()
        certificate, key = made.server
        options: tuple[str, ...] = ("--tls-port", str(port), "--tls-ca-cert-file", str(made.authority))
        options += (
            "--tls-cert-file",
            str(certificate),
            "--tls-key-file",
            str(key),
            "--tls-auth-clients",
            "yes",
        )
        try:
            started = EmbeddedServer(binary=servers.binary(name), options=options)
        except (EmbeddedError, servers.Missing) as error:
            said.append(f"{name}: {str(error).strip().splitlines()[-1]}")
            continue
        with started:
            yield TlsServer(name, f"rediss://127.0.0.1:{port}/0", made)
        return
    raise servers.Missing(f"no server here speaks TLS: {'; '.join(said)}")


def _free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
