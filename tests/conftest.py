"""One server per session, a namespace per test.

`DURABLY_TEST_SERVER`: `embedded`, a name in `servers.py`, a path, or an address.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from uuid import NAMESPACE_URL, uuid4, uuid5

import pytest
import servers

SERVER = os.environ.get("DURABLY_TEST_SERVER", "embedded")


def pytest_report_header() -> str:
    return f"server: {SERVER}"


@pytest.fixture(scope="session")
def server() -> Iterator[servers.Server]:
    """The session's server. Tests share it, so none may kill it."""
    with servers.start(SERVER) as started:
        yield started


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[servers.Server]:
    """A server of the test's own, with an append-only file: it may be killed and restarted."""
    address = servers.address(SERVER)
    if address is not None:
        pytest.skip("the server at the given address is not ours to kill")
    with servers.start(SERVER, tmp_path / "data") as started:
        yield started


@pytest.fixture(autouse=True)
def one_at_a_time() -> Iterator[None]:
    """Processes side by side that were given one address take turns: tests kill connections and count commands."""
    address = servers.address(SERVER)
    if address is None:
        yield
        return
    name = f"durably-{os.getuid()}-{uuid5(NAMESPACE_URL, address)}.lock"
    with open(Path(tempfile.gettempdir()) / name, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture
def namespace() -> str:
    """A fresh namespace."""
    return f"t{uuid4().hex[:12]}"
