"""The embedded server: real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from durably import embedded
from durably.embedded import EmbeddedError, EmbeddedServer
from redis import Redis


def alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def gone_within(pid: int, seconds: float) -> bool:
    until = time.monotonic() + seconds
    while alive(pid):
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


@pytest.mark.parametrize("tcp", [False, True])
def test_it_answers_and_ends_with_its_block(tcp: bool) -> None:
    with embedded.start(tcp=tcp) as server:
        pid = server.pid
        with Redis.from_url(server.url, decode_responses=True) as client:
            assert client.set("a", "1")
            assert client.config_get("appendonly") == {"appendonly": "no"}
        assert len(server.socket or "") < 100
    assert gone_within(pid, 5)
    with pytest.raises(EmbeddedError):
        _ = server.pid


def test_two_live_side_by_side() -> None:
    with embedded.start() as one, embedded.start(tcp=True) as two:
        assert one.url != two.url and one.pid != two.pid


def test_a_folder_keeps_its_data_over_a_kill_and_a_new_start(tmp_path: Path) -> None:
    with embedded.start(tmp_path / "data", fsync="always") as server:
        with Redis.from_url(server.url, decode_responses=True) as client:
            client.set("a", "1")
        server.kill()
        server.restart()
        with Redis.from_url(server.url, decode_responses=True) as client:
            assert client.get("a") == "1"
    with (
        embedded.start(tmp_path / "data") as server,
        Redis.from_url(server.url, decode_responses=True) as client,
    ):
        assert client.get("a") == "1"


def test_a_folder_is_locked(tmp_path: Path) -> None:
    with embedded.start(tmp_path), pytest.raises(EmbeddedError, match="another"):
        embedded.start(tmp_path)
    embedded.start(tmp_path).stop()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_it_ends_with_its_parent_however_that_ends(tmp_path: Path, how: signal.Signals) -> None:
    script = (
        "import threading, time\n"
        "from durably import embedded\n"
        "made = []\n"
        "one = threading.Thread(target=lambda: made.append(embedded.start()))\n"
        "one.start(); one.join()\n"
        "print(made[0].pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    with parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert alive(pid)
        time.sleep(0.2)
        assert alive(pid), "the server ended with the thread that started it"
        os.kill(parent.pid, how)
    assert gone_within(pid, 5)


def test_what_cannot_start_says_why(tmp_path: Path) -> None:
    broken = tmp_path / "server"
    broken.write_text("#!/bin/sh\necho no such luck\nexit 3\n")
    broken.chmod(0o755)
    with pytest.raises(EmbeddedError, match="no such luck"):
        EmbeddedServer(binary=broken)
    with pytest.raises(ValueError, match="fsync"):
        EmbeddedServer(fsync="sometimes")


def test_a_missing_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(EmbeddedError, match=r"durably\[embedded\]"):
        embedded.find_binary()
