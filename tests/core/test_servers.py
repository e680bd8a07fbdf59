"""Where the tests' servers come from, where it is neither a file nor a package: a container, an address."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import containers
import pytest
import servers
from containers import Container
from durably import embedded
from durably.embedded import EmbeddedServer, find_binary
from redis import Redis
from redis.exceptions import ConnectionError
from servers import Given, Missing

TESTS = Path(__file__).parents[1]
WAS = "valkey-9.1"
"""What the embedded server is: what the containers of these tests are, whatever their image is called."""

DOCKER = '''\
#!{python}
"""Does to a process what docker does to a container: run, kill, restart, rm -f, logs, ps."""
import os, pathlib, shutil, signal, subprocess, sys, time
state = pathlib.Path({state!r})
word, *rest = sys.argv[1:]
with open(state / "calls", "a") as calls:
    print(*sys.argv[1:], file=calls)

def start(folder):
    arguments = (folder / "arguments").read_text().split("\\n")
    made = subprocess.Popen(
        [{binary!r}, *arguments], cwd=folder, start_new_session=True, stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )
    (folder / "pid").write_text(str(made.pid))

def end(folder, how):
    pid = int((folder / "pid").read_text())
    try:
        os.kill(pid, how)
        while pathlib.Path(f"/proc/{{pid}}").exists():
            if pathlib.Path(f"/proc/{{pid}}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                break
            time.sleep(0.01)
    except (ProcessLookupError, FileNotFoundError):
        pass

if (state / "down").exists():
    sys.exit("Cannot connect to the daemon. Is it running?")
if word == "run":
    assert rest[0] == "-d" and rest[1] == "-p", rest
    host, port, inside = rest[2].split(":")
    assert (host, inside) == ("127.0.0.1", "6379"), rest
    if (state / "no such image").exists():
        sys.exit(f"manifest for {{rest[3]}} not found")
    name = f"container{{len(list(state.iterdir()))}}"
    folder = state / name
    folder.mkdir()
    arguments = ["--port", port, "--bind", host, *rest[4:]]
    (folder / "arguments").write_text("\\n".join(arguments))
    start(folder)
    print(name)
elif word == "ps":
    pass
else:
    folder = state / rest[-1]
    if not folder.exists():
        sys.exit(f"no such container: {{rest[-1]}}")
    if word == "logs":
        print("it is said here")
    elif word == "kill":
        end(folder, signal.SIGKILL)
    elif word == "restart":
        end(folder, signal.SIGTERM)
        start(folder)
    elif word == "rm":
        assert rest[0] == "-f", rest
        end(folder, signal.SIGKILL)
        shutil.rmtree(folder)
    else:
        sys.exit(f"unknown command {{word}}")
'''


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An engine that runs processes, the only one on `PATH`; nothing can be fetched. Where it keeps its state."""
    state, programs = tmp_path / "state", tmp_path / "programs"
    state.mkdir()
    programs.mkdir()
    program = programs / "docker"
    program.write_text(DOCKER.format(python=sys.executable, state=str(state), binary=str(find_binary())))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(servers, "_missing", {})
    for name in servers.SERVERS:
        monkeypatch.delenv(f"DURABLY_TEST_REDIS_{name}".replace("-", "_").replace(".", "_").upper(), False)

    def bring(*_: object) -> None:
        raise Missing("it could not be fetched: no network")

    monkeypatch.setattr(servers, "_bring", bring)
    yield state
    left = [one for one in state.iterdir() if one.is_dir()]
    for one in left:
        os.kill(int((one / "pid").read_text()), signal.SIGKILL)
    assert not left, "a container was left behind"


def test_a_container_is_the_last_source(docker: Path) -> None:
    with servers.start(WAS) as server:
        assert isinstance(server, Container) and server.image == "valkey/valkey:9.1"
        assert servers.version(server).startswith("valkey 9.1.")
        with Redis.from_url(server.url) as client:
            assert client.config_get("appendonly")["appendonly"] == "no"
    assert f"rm -f -v {server.id}" in (docker / "calls").read_text()
    with pytest.raises(ConnectionError), Redis.from_url(server.url) as client:
        client.ping()


def test_it_keeps_its_data_over_a_kill(docker: Path, tmp_path: Path) -> None:
    with servers.start(WAS, tmp_path / "data") as server:
        assert isinstance(server, Container)
        with Redis.from_url(server.url, decode_responses=True) as client:
            client.set("a", "1")
        server.kill()
        assert not server._answers()
        server.restart()
        with Redis.from_url(server.url, decode_responses=True) as client:
            assert client.get("a") == "1"


def test_it_ends_with_its_parent(docker: Path) -> None:
    script = f"import containers, time; print(containers.Container({containers.engine()!r}, 'any').id, flush=True); time.sleep(60)"
    command = [sys.executable, "-c", script]
    parent = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(TESTS)}
    )
    with parent:
        assert parent.stdout is not None
        folder = docker / parent.stdout.readline().strip()
        assert folder.is_dir() and folder != docker
        parent.kill()
    until = time.monotonic() + 10
    while folder.exists():
        assert time.monotonic() < until, "the container outlived its parent"
        time.sleep(0.02)


def test_an_image_of_another_version_is_refused_and_ended(docker: Path) -> None:
    with pytest.raises(Missing, match=r"is valkey 9\.1.* not valkey-8\.1"):
        servers.start("valkey-8.1")
    assert servers.tried("redis-6.2").startswith("redis-6.2: MISSING: the server at redis://127.0.0.1:")


def test_what_cannot_be_had_says_all_that_was_tried(docker: Path) -> None:
    (docker / "no such image").touch()
    with pytest.raises(
        Missing, match=r"no network; nor .* in a container: .*manifest for valkey/valkey:9.1 not found"
    ):
        servers.start(WAS)
    (docker / "down").touch()
    assert containers.engine() is None
    with pytest.raises(Missing, match="no network; and no container engine answers here"):
        servers.start(WAS)


def test_a_server_in_a_container_that_never_answers_is_ended(docker: Path) -> None:
    engine = containers.engine()
    assert engine is not None
    with pytest.raises(containers.ContainerError, match="does not answer: it is said here"):
        Container(engine, "any", fsync="nonsense", patience=0.3)  # the server refuses to start


def test_an_address_is_used_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    with embedded.start(tcp=True) as running:
        monkeypatch.setenv("DURABLY_TEST_REDIS_VALKEY_9_1", f"redis://127.0.0.1:{running.port}")
        with servers.start(WAS) as server:
            assert isinstance(server, Given)
            assert (server.url, server.host, server.port) == (running.url, "127.0.0.1", running.port)
        with Redis.from_url(server.url) as client:
            assert client.ping(), "it was ended"
        assert f"valkey-9.1: valkey 9.1.2 at {running.url}" == servers.tried(WAS)
        monkeypatch.setenv("DURABLY_TEST_REDIS_REDIS_8_2", running.url)
        with pytest.raises(Missing, match=r"is valkey 9\.1\.2, not redis-8\.2"):
            servers.start("redis-8.2")
        with pytest.raises(Missing, match="no binary"):
            servers.binary(WAS)
        with servers.start(running.url) as server:
            assert server.url == running.url
    with pytest.raises(Missing, match="does not answer"):
        servers.start(running.url)


@pytest.mark.parametrize(
    ("url", "made", "plain"),
    [
        ("redis://h", "redis://h/0", True),
        ("redis://h:7/3", "redis://h:7/3", True),
        ("redis://:secret@h", "redis://:secret@h/0", False),
        ("rediss://h/0", "rediss://h/0", False),
        ("unix:///tmp/s", "unix:///tmp/s", False),
    ],
)
def test_addresses(url: str, made: str, plain: bool) -> None:
    given = Given(url)
    assert (given.url, given.plain) == (made, plain)


def test_tests_with_an_address_leave_its_server_alone(server: EmbeddedServer) -> None:
    if isinstance(server, Given):
        pytest.skip("a server of this test's own is not to be had")
    store = TESTS / "redis_async" / "test_redis_store.py"
    with embedded.start(tcp=True) as running:
        env = {**os.environ, "DURABLY_TEST_SERVER": running.url}
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:xdist",
            str(store),
        ]
        command += ["-k", "restarted or flush"]
        done = subprocess.run(command, env=env, capture_output=True, text=True, cwd=TESTS.parent)
        assert done.returncode == 0, done.stdout
        assert "not ours to kill" in done.stdout and " passed" in done.stdout
        with Redis.from_url(running.url) as client:
            assert client.ping()


def test_words_that_name_no_server_are_refused() -> None:
    assert servers.named(["8.10", "embedded", "valkey-8.1"]) == ["redis-8.10", "embedded", "valkey-8.1"]
    assert servers.named([]) == list(servers.SERVERS)
    with pytest.raises(Missing, match="no server '8.4'"):
        servers.named(["8.4"])
    done = subprocess.run(
        [sys.executable, str(TESTS / "servers.py"), "8.4"],
        capture_output=True,
        text=True,
        env=dict(os.environ),
    )
    assert done.returncode == 2 and "choose from" in done.stderr, textwrap.shorten(done.stderr, 400)
