"""One server per session (`DURABLY_TEST_SERVER`: `embedded`, a name in `servers.py`, or a path), a namespace per test."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
import servers
from durably.embedded import EmbeddedServer

SERVER = os.environ.get("DURABLY_TEST_SERVER", "embedded")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # a shell that starts us in the background has it ignored; tests send it to themselves
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_report_header() -> str:
    return f"server: {SERVER}"


@pytest.fixture(scope="session")
def server() -> Iterator[EmbeddedServer]:
    """The session's server. Tests share it, so none may kill it."""
    with servers.start(SERVER) as started:
        yield started


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[EmbeddedServer]:
    """A server of the test's own, with an append-only file: it may be killed and restarted."""
    with servers.start(SERVER, tmp_path / "data") as started:
        yield started


@pytest.fixture
def namespace() -> str:
    """A fresh namespace."""
    return f"t{uuid4().hex[:12]}"
