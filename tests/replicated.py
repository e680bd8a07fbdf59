"""A master and a replica, each an embedded server: what tests and tables of durability run against.

Its own commands go through a blocking client, so tests of both flavours use it alike.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import servers
from durably.embedded import EmbeddedServer
from redis import Redis
from redis.exceptions import ConnectionError as RedisConnectionError


def said(server: EmbeddedServer, *command: str | int) -> Any:
    """The server's reply to one command."""
    client: Any = Redis.from_url(server.url, decode_responses=True)
    try:
        return client.execute_command(*command)
    finally:
        client.close()


class Replicated:
    """Use `start` to make one."""

    def __init__(self, master: EmbeddedServer, replica: EmbeddedServer) -> None:
        self.master = master
        self.replica = replica
        self._paused = False

    @property
    def url(self) -> str:
        """The master's address."""
        return self.master.url

    def until_linked(self, within: float = 20.0) -> None:
        """Wait until the replica follows its master."""
        until = time.monotonic() + within
        while True:
            with contextlib.suppress(RedisConnectionError):
                if said(self.replica, "INFO", "replication").get("master_link_status") == "up":
                    return
            assert time.monotonic() < until, f"the replica does not follow its master after {within} s"
            time.sleep(0.01)

    def pause(self) -> None:
        """Stop the replica where it is: it takes and acknowledges nothing more."""
        os.kill(self.replica.pid, signal.SIGSTOP)
        self._paused = True

    def resume(self) -> None:
        """Let it go on. Harmless to repeat."""
        if self._paused:
            os.kill(self.replica.pid, signal.SIGCONT)
            self._paused = False

    def promote(self) -> None:
        """Make the replica a master, with what it has."""
        said(self.replica, "REPLICAOF", "NO", "ONE")

    def calls(self, command: str) -> int:
        """How often the master has run `command`."""
        stats = said(self.master, "INFO", "commandstats")
        return int(stats.get(f"cmdstat_{command.lower()}", {"calls": 0})["calls"])


@contextlib.contextmanager
def start(
    name: str, folder: Path, *, fsync: str = "always", options: tuple[str, ...] = ()
) -> Iterator[Replicated]:
    """A master and a replica of the kind `name`, linked, each with an append-only file under `folder`."""
    binary = servers.binary(name)
    quick = ("--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1", *options)
    with EmbeddedServer(folder / "master", tcp=True, fsync=fsync, binary=binary, options=quick) as master:
        follows = ("--replicaof", "127.0.0.1", str(master.port), *quick)
        with EmbeddedServer(
            folder / "replica", tcp=True, fsync=fsync, binary=binary, options=follows
        ) as replica:
            both = Replicated(master, replica)
            try:
                both.until_linked()
                yield both
            finally:
                both.resume()
