"""What is killed under the archive: one server, or one master of a cluster."""

from __future__ import annotations

import time
from pathlib import Path

from durably.embedded import EmbeddedError, EmbeddedServer
from durably.embedded_cluster import EmbeddedCluster, say
from redis.crc import key_slot

NODE_TIMEOUT = 1500
"""After how many ms a silent node counts as down. On a machine that is busy with the workers, not too soon."""


class Single:
    """One server, which is killed and starts again with what it has on disk."""

    def __init__(self, folder: Path) -> None:
        self._server = EmbeddedServer(folder, fsync="always", tcp=True)
        self.url = self._server.url
        self.kills = 0

    def kill(self, key: str) -> None:
        """Kill it and start it again, whatever `key` is."""
        self._server.kill()
        self._server.restart()
        self.kills += 1

    def is_over(self) -> bool:
        """Whether what was killed has been made good."""
        return True

    def told(self) -> list[str]:
        """What there is to say about it."""
        return []

    def stop(self) -> None:
        """End it."""
        self._server.stop()


class Cluster:
    """Three masters with a replica each. The master that owns a key is killed, and its replica promoted."""

    def __init__(self, folder: Path) -> None:
        self._cluster = EmbeddedCluster(3, 1, folder=folder, node_timeout=NODE_TIMEOUT)
        self.url = ",".join(node.url for node in self._cluster.nodes)
        self.kills = 0
        self._victim: EmbeddedServer | None = None
        self._heir: EmbeddedServer | None = None
        self._slot = 0
        self._bytes = 0
        self._died = 0.0
        self._took = 0.0

    def kill(self, key: str) -> None:
        """Kill the master that owns `key`, once its replica has all that it has. Raises `EmbeddedError`."""
        self._slot = key_slot(key.encode())
        victim = self._cluster.owner(self._slot)
        self._bytes = _hold_until_in_sync(victim)
        victim.kill()
        self._victim, self._died = victim, time.monotonic()
        self.kills += 1

    def is_over(self) -> bool:
        """Whether the replica has been promoted."""
        if self._victim is None or self._heir is not None:
            return True
        try:
            owner = self._cluster.owner(self._slot)
        except EmbeddedError:
            return False
        if owner is self._victim:
            return False
        self._heir, self._took = owner, time.monotonic() - self._died
        return True

    def told(self) -> list[str]:
        """What there is to say about it."""
        if self._victim is None:
            return []
        after = "nobody took over" if self._heir is None else f"took over within {self._took:.1f} s"
        return [
            f"the master of slot {self._slot}, where the queue is, was killed; its replica {after}",
            f"the replica had all of its {self._bytes} bytes: the driver held writes back until it had, then killed. "
            "What an asynchronous replica has not received when its master dies is lost by Redis itself: "
            "that is not tried here",
        ]

    def stop(self) -> None:
        """End every node."""
        self._cluster.stop()


def _hold_until_in_sync(master: EmbeddedServer, patience: float = 10.0) -> int:
    """Hold writes back on `master` until a replica has received all that was written; how many bytes that were.

    Nothing is written between the answer and the kill, if that comes at once. Raises `EmbeddedError`.
    """
    say(master.port, "CLIENT", "PAUSE", str(int(patience * 1000)), "WRITE")
    until = time.monotonic() + patience / 2
    while time.monotonic() < until:
        _, offset, replicas = say(master.port, "ROLE")
        for _, port, _ in replicas:
            if say(int(port), "ROLE")[4] == offset:
                return int(offset)
        time.sleep(0.005)
    say(master.port, "CLIENT", "UNPAUSE")
    raise EmbeddedError(
        f"the replica of the master on port {master.port} was not in sync within {patience / 2} s"
    )
