"""A server in a container, where docker or podman is there and answers: the last source of `servers.py`.

The container listens on a free loopback port and is ended by its id: by `stop`, and when this process ends in any way,
by a shell that holds the other end of a pipe.
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import time
from types import TracebackType

ENGINES = ("docker", "podman")


class ContainerError(RuntimeError):
    """A container could not be started; the message says why."""


def engine() -> str | None:
    """The path of an engine whose daemon answers, or `None`."""
    for name in ENGINES:
        found = shutil.which(name)
        with contextlib.suppress(ContainerError):
            if found is not None:
                _said(found, "ps", "-q", patience=20)
                return found
    return None


def image(name: str) -> str:
    """The image of a server that is called `redis-8.2` or `valkey-9.1` here."""
    kind, version = name.split("-")
    return f"redis:{version}" if kind == "redis" else f"valkey/valkey:{version}"


class Container:
    """A server in a container. Use it in a `with` block, or call `stop`.

    `kept`: keep an append-only file, so that `kill` and `restart` lose nothing. `fsync`: how often it is synced.
    `patience`: how long the start may take, in seconds, without fetching the image. Raises `ContainerError`.
    """

    def __init__(
        self, engine: str, image: str, *, kept: bool = False, fsync: str = "always", patience: float = 30.0
    ) -> None:
        self.engine, self.image, self.patience = engine, image, patience
        self.host, self.port = "127.0.0.1", _free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        where = ("-p", f"127.0.0.1:{self.port}:6379")
        options = ("--save", "", "--appendonly", "yes" if kept else "no", "--appendfsync", fsync)
        said = _said(engine, "run", "-d", *where, image, *options, "--protected-mode", "no", patience=600)
        self.id = said.split()[-1]
        self._keeper: subprocess.Popen[bytes] | None = subprocess.Popen(
            ["sh", "-c", 'cat >/dev/null; exec "$0" rm -f -v "$1"', engine, self.id],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            self._wait()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End and remove it. Harmless to repeat."""
        keeper, self._keeper = self._keeper, None
        if keeper is not None and keeper.stdin is not None:
            keeper.stdin.close()
            keeper.wait(60)

    def kill(self) -> None:
        """End it as a crash would (SIGKILL). `restart` brings it back."""
        _said(self.engine, "kill", self.id)

    def restart(self) -> None:
        """Start it again, at the same address, with what it has kept."""
        _said(self.engine, "restart", self.id)
        self._wait()

    def __enter__(self) -> Container:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _wait(self) -> None:
        until = time.monotonic() + self.patience
        while not self._answers():
            if time.monotonic() > until:
                raise ContainerError(
                    f"{self.image} does not answer: {_said(self.engine, 'logs', self.id)[-400:]}"
                )
            time.sleep(0.05)

    def _answers(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection((self.host, self.port), 1.0) as probe:
            probe.sendall(b"*1\r\n$4\r\nPING\r\n")
            return probe.recv(64).startswith(b"+PONG")
        return False


def _said(engine: str, *words: str, patience: float = 60) -> str:
    try:
        done = subprocess.run([engine, *words], capture_output=True, text=True, timeout=patience)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ContainerError(str(error)) from error
    if done.returncode:
        raise ContainerError(f"{engine} {words[0]}: {done.stderr.strip()[-400:]}")
    return done.stdout


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
