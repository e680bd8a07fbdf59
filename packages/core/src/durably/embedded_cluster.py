"""A small Redis Cluster on the loopback interface, for tests and for trying things out: see `durably.embedded`."""

from __future__ import annotations

import os
import random
import socket
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from durably.embedded import EmbeddedError, EmbeddedServer

SLOTS = 16384
_BUS = 10_000
"""How far a node's bus port is from its port."""


class EmbeddedCluster:
    """Masters, each with its replicas, as child processes of this one. Use it in a `with` block, or call `stop`.

    `masters`: how many, 3 or more. `replicas`: how many each has. `folder`: where the nodes keep their data
    (append-only files); without one they keep nothing. `node_timeout`: after how many ms a silent node counts as down.
    `binary`: another server than the extra's. `options`: further words of the nodes' command lines. Raises
    `EmbeddedError`.
    """

    def __init__(
        self,
        masters: int = 3,
        replicas: int = 1,
        *,
        folder: str | os.PathLike[str] | None = None,
        node_timeout: int = 1000,
        binary: str | os.PathLike[str] | None = None,
        patience: float = 30.0,
        options: tuple[str, ...] = (),
    ) -> None:
        if masters < 3 or replicas < 0:
            raise ValueError("a cluster has 3 masters or more, and 0 replicas or more of each")
        self.nodes: list[EmbeddedServer] = []
        words = (
            *("--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf"),
            *("--cluster-node-timeout", str(node_timeout), "--cluster-replica-validity-factor", "0"),
            *("--repl-diskless-sync-delay", "0", *options),
        )
        try:
            for n in range(masters * (1 + replicas)):
                home = None if folder is None else Path(folder) / f"node-{n}"
                self.nodes.append(
                    EmbeddedServer(home, port=_free_ports(), binary=binary, patience=patience, options=words)
                )
            self._join(masters, patience)
        except BaseException:
            self.stop()
            raise

    @property
    def url(self) -> str:
        """The address of one node, for `redis.asyncio.RedisCluster.from_url` and the like."""
        return self.nodes[0].url

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Host and port of every node."""
        return [("127.0.0.1", node.port) for node in self.nodes]

    def masters(self) -> list[EmbeddedServer]:
        """The nodes that are masters at present, as they say themselves."""
        found = []
        for node in self.nodes:
            try:
                said = say(node.port, "ROLE")
            except OSError:
                continue
            if isinstance(said, list) and said[0] == "master":
                found.append(node)
        return found

    def owner(self, slot: int) -> EmbeddedServer:
        """The node that serves `slot`, as the others say. Raises `EmbeddedError` when nobody does."""
        for node in self.nodes:
            try:
                ranges = say(node.port, "CLUSTER", "SLOTS")
            except OSError:
                continue
            for first, last, master, *_ in ranges if isinstance(ranges, list) else ():
                if first <= slot <= last:
                    return next(one for one in self.nodes if one.port == master[1])
        raise EmbeddedError(f"no node serves slot {slot}")

    def wait_healthy(self, patience: float = 30.0, *, nodes: int | None = None) -> None:
        """Wait until every running node finds the cluster in order. Raises `EmbeddedError` after `patience` seconds."""
        known = len(self.nodes) if nodes is None else nodes
        _until(
            lambda: all(_is_well(node.port, known) for node in self.nodes),
            "the cluster is in order",
            patience,
        )

    def move_slot(self, slot: int, target: EmbeddedServer, batch: int = 10) -> None:
        """Move a slot to `target` while it is used, a few keys at a time."""
        source = self.owner(slot)
        if source is target:
            return
        ids = {node.port: str(say(node.port, "CLUSTER", "MYID")) for node in (source, target)}
        say(target.port, "CLUSTER", "SETSLOT", str(slot), "IMPORTING", ids[source.port])
        say(source.port, "CLUSTER", "SETSLOT", str(slot), "MIGRATING", ids[target.port])
        while keys := say(source.port, "CLUSTER", "GETKEYSINSLOT", str(slot), str(batch)):
            say(source.port, "MIGRATE", "127.0.0.1", str(target.port), "", "0", "5000", "KEYS", *keys)
        for node in (target, source, *self.masters()):
            say(node.port, "CLUSTER", "SETSLOT", str(slot), "NODE", ids[target.port])

    def stop(self) -> None:
        """End every node. Harmless to repeat."""
        for node in self.nodes:
            node.stop()

    def __enter__(self) -> EmbeddedCluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _join(self, masters: int, patience: float) -> None:
        heads = self.nodes[:masters]
        for n, node in enumerate(self.nodes):
            say(node.port, "CLUSTER", "SET-CONFIG-EPOCH", str(n + 1))
        for n, node in enumerate(heads):
            slots = range(SLOTS * n // masters, SLOTS * (n + 1) // masters)
            say(node.port, "CLUSTER", "ADDSLOTS", *map(str, slots))
        for node in self.nodes[1:]:
            say(node.port, "CLUSTER", "MEET", "127.0.0.1", str(self.nodes[0].port))
        self.wait_healthy(patience)
        for n, node in enumerate(self.nodes[masters:]):
            head = str(say(heads[n % masters].port, "CLUSTER", "MYID"))
            say(node.port, "CLUSTER", "REPLICATE", head)
        replicas = self.nodes[masters:]
        _until(lambda: all(_is_linked(node.port) for node in replicas), "the replicas are linked", patience)
        expected = len(self.nodes)
        _until(
            lambda: all(_slots_know(node.port, expected) for node in self.nodes),
            "every node knows the replicas",
            patience,
        )


def say(port: int, *words: str, timeout: float = 10.0) -> Any:
    """The reply of the node on `port` to one command. Raises `OSError` when it cannot be reached, `EmbeddedError` for
    an error reply."""
    with socket.create_connection(("127.0.0.1", port), timeout) as link:
        coded = [word.encode("utf-8") for word in words]
        parts = [b"*%d\r\n" % len(coded), *(b"$%d\r\n%s\r\n" % (len(word), word) for word in coded)]
        link.sendall(b"".join(parts))
        with link.makefile("rb") as stream:

            def read() -> Any:
                line = stream.readline()
                kind, rest = line[:1], line[1:-2].decode("utf-8")
                if kind == b"+":
                    return rest
                if kind == b"-":
                    raise EmbeddedError(f"{' '.join(words)[:80]}: {rest}")
                if kind == b":":
                    return int(rest)
                if kind == b"$":
                    size = int(rest)
                    return None if size < 0 else stream.read(size + 2)[:-2].decode("utf-8")
                if kind == b"*":
                    return [read() for _ in range(int(rest))]
                raise ConnectionError(f"the node on port {port} went away")

            return read()


def _is_well(port: int, known: int) -> bool:
    try:
        info = str(say(port, "CLUSTER", "INFO"))
    except OSError:
        return True  # it does not run
    return "cluster_state:ok" in info and f"cluster_known_nodes:{known}\r" in info


def _is_linked(port: int) -> bool:
    return "master_link_status:up" in str(say(port, "INFO", "replication"))


def _slots_know(port: int, nodes: int) -> bool:
    ranges = say(port, "CLUSTER", "SLOTS")
    return sum(len(one) - 2 for one in ranges if isinstance(one, list)) == nodes


def _until(holds: Callable[[], bool], what: str, patience: float) -> None:
    until = time.monotonic() + patience
    while not holds():
        if time.monotonic() > until:
            raise EmbeddedError(f"not within {patience} s: {what}")
        time.sleep(0.05)


def _free_ports() -> int:
    """A port that is free, and its bus port as well."""
    for _ in range(1000):
        port = random.randrange(20_000, 30_000)
        with socket.socket() as one, socket.socket() as bus:
            try:
                one.bind(("127.0.0.1", port))
                bus.bind(("127.0.0.1", port + _BUS))
            except OSError:
                continue
            return port
    raise EmbeddedError("no two free ports")
