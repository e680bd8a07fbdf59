"""One server per session (`DURABLY_TEST_SERVER`: `embedded`, a name in `servers.py`, or a path), a namespace per test."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
import replicated as replication
import servers
from durably.embedded import EmbeddedServer

SERVER = os.environ.get("DURABLY_TEST_SERVER", "embedded")


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


@pytest.fixture(scope="session")
def replicated_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[replication.Replicated]:
    """The session's master and its replica, both with an append-only file."""
    with replication.start(SERVER, tmp_path_factory.mktemp("replicated")) as started:
        yield started


@pytest.fixture
def replicated(replicated_servers: replication.Replicated) -> Iterator[replication.Replicated]:
    """The same: the replica may be paused, no server may be killed."""
    yield replicated_servers
    replicated_servers.resume()
    replicated_servers.until_linked()


@pytest.fixture
def own_replicated(tmp_path: Path) -> Iterator[replication.Replicated]:
    """A master and a replica of the test's own: both may be killed."""
    with replication.start(SERVER, tmp_path) as started:
        yield started


@pytest.fixture
def namespace() -> str:
    """A fresh namespace."""
    return f"t{uuid4().hex[:12]}"
