"""One server per session, a namespace per test.

`DURABLY_TEST_SERVER`: `embedded`, a name in `servers.py`, a path, an address, or `cluster` (`cluster:redis-6.2`).
"""

from __future__ import annotations

import fcntl
import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from uuid import NAMESPACE_URL, uuid4, uuid5

import pytest
import replicated as replication
import servers

SERVER = os.environ.get("DURABLY_TEST_SERVER", "embedded")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # a shell that starts us in the background has it ignored; tests send it to themselves
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_report_header() -> str:
    return f"server: {SERVER}"


ONE_SERVER = {
    "test_lost_replies": "its proxy stands before one server",
    "test_processes": "its processes speak to one server",
    "TestOneCommit": "one script cannot reach two slots",
    "[one stream]": "one script cannot reach two slots",
    "[one set]": "one script cannot reach two slots",
    "test_whatever_the_codec": "one script cannot reach two slots",
    "test_a_fleet_may_change_from_two_writes_to_one": "one script cannot reach two slots",
    "test_with_one_database": "one script cannot reach two slots",
    "said_again": "its proxy stands before one server",
    "test_passes_in_a_row": "it reads the statistics of one server",
    "test_codecs.py::test_any_value": "it has clients of one server",
    "test_a_cancellation_that_the_client_swallows": "it breaks a connection of one server",
    "test_what_is_cancelled_stays_cancelled_whoever": "it counts the commands of one connection",
    "test_a_cancellation_is_disturbed": "it counts the commands of one connection",
    "is_disturbed_before_its_every_command": "it counts the commands of one connection",
    "test_cancel_is_one_call": "it reads the statistics of one server",
    "test_which_queues_say_when": "its client has no server, and the blocking one of a cluster asks when it is made",
    "test_a_torn_effect_says_so_to_every_pass": "its effect has a key of another slot",
    "test_a_flushed_server_gets_its_group_back": "it has a server of its own",
    "test_many_callers_share_round_trips": "it counts round trips to one server",
    "test_a_plain_client_lives_through_lost": "it kills the connections of one server",
    "test_a_restarted_server": "it has a server of its own",
    "test_a_long_backlog_goes_in_calls": "it reads the statistics of one server",
    "test_out_of_memory": "it has a server of its own",
    "test_what_gave_back": "it has a server of its own",
    "test_durability.py": "it has a master and a replica of its own",
    "test_checking.py": "it reads, and changes, the settings of one server",
    "test_topologies.py": "its servers are of other kinds",
    "test_lost_keys.py": "it finds and deletes keys of one server",
    "test_threads.py": "its processes speak to one server",
    "test_celery.py": "its processes speak to one server",
}
"""What does not fit a cluster, and why. All else of both flavours runs there with `DURABLY_TEST_SERVER=cluster`."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if servers.clustered(SERVER) is None:
        return
    for item in items:
        for part, why in ONE_SERVER.items():
            if part in item.nodeid:
                item.add_marker(pytest.mark.skip(reason=f"not for a cluster: {why}"))


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
