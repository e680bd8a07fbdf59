# Generated from tests/redis_async/test_topologies.py by twin.py. Edit that file.
"""Both flavours on servers as operators set them up: Sentinel, TLS, ACL, a unix socket, a database other than 0."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import servers
from durably.embedded import EmbeddedServer
from durably_redis_sync import (
    LuaEffect,
    RedisCheckpointer,
    RedisDurable,
    RedisSetScheduler,
    RedisStreamScheduler,
    Run,
    check_server,
    claimed,
    now_utc,
    sweep,
    work,
)
from durably_redis_sync._client import RedisConnectionError, same_database, socket_timeout
from durably_redis_sync.together import open_pass
from proxy import serving
from redis.exceptions import AuthenticationError, NoPermissionError, ReadOnlyError, ResponseError
from redis_sync.failover_load import failover
from support import ms, same
from support_sync import Event, Redis, Started, eventually, leave, sentinel_client, sleep
from support_sync import client as connect
from topologies import SentinelTopology, certificates, tls_server

PAGE = Path(__file__).parents[2] / "docs" / "operations.md"
COUNT = "return tostring(redis.call('INCR', KEYS[1]))"
KINDS = pytest.mark.parametrize("kind", ["stream", "set"])


def durable_on(client: Redis, kind: str, namespace: str) -> RedisDurable:
    """A store and a queue on one client."""
    store = RedisCheckpointer(client, namespace)
    if kind == "stream":
        return RedisDurable(store, RedisStreamScheduler(client, namespace, lease=ms(2000)))
    return RedisDurable(store, RedisSetScheduler(client, namespace, lease=ms(2000), poll=ms(10)))


def live(client: Redis, kind: str, namespace: str) -> None:
    """A workflow's whole life, and what else may be asked of a store and a queue."""
    durable = durable_on(client, kind, namespace)
    store, queue = durable.checkpointer, durable.scheduler
    ended: list[str] = []

    def body(run: Run) -> None:
        def effect() -> str:
            return "done"

        run.step("first", effect, same)
        count = LuaEffect(COUNT, keys=(f"{namespace}:{{{run.workflow}}}:count",))
        assert run.transact("count", count, same) == 1
        run.sleep("nap", ms(50))
        said = run.awaiting("said", same)
        mail = run.receive("mail", limit=1)
        ended.append(f"{said}, {mail[0].value}")

    def has_ended() -> bool:
        return bool(ended)

    queue.prepare()
    stop = Event()
    worker = Started(partial(work, stop=stop, within=ms(50), tick=ms(10)), durable, body)
    try:
        queue.make_ready("w")
        sleep(0.1)
        durable.arrive("w", "said", "yes")
        durable.deliver("w", "hello")
        eventually(has_ended, describing="the workflow ends", within=20)
    finally:
        stop.set()
        worker.result(20)
    assert (sweep(durable, settled=ms(1))).woken == ()
    assert not any("INFO is refused" in one.what for one in check_server(client))
    assert set(ended) == {"yes, hello"}  # each wakeup is a pass, and what is recorded is handed back
    assert set(store.history("w")) >= {"first", "count", "nap", "said", "mail"}
    assert durable.delete("w") >= 5
    assert store.load("w") == {}
    holder = claimed(store, "by hand")
    assert store.extend(holder, ms(60_000)) and store.renew(holder)
    assert (store.record(holder, "a", 1)).first
    assert not store.clear_torn("by hand", "a")
    store.release(holder)
    assert store.discard("by hand") == 1
    queue.make_ready("taken")
    taken = queue.next_ready(ms(1000))
    assert taken is not None and taken.workflow == "taken"
    taken = queue.extend(taken, ms(1000))
    queue.wake_at(taken, now_utc() - ms(1000))
    queue.wake_due()
    assert queue.available(10) == 1
    queue.cancel("taken")
    queue.reclaim(ms(1))
    assert queue.next_ready(ms(50)) is None
    if isinstance(queue, RedisStreamScheduler):
        queue.trim()
        assert client.xlen(queue.ready_key) == 0


@pytest.fixture
def opened() -> Any:
    """Clients that the test makes and that are closed after it."""
    return []


@pytest.fixture(autouse=True)
def closing_all(opened: Any) -> Iterator[None]:
    yield
    for client in opened:
        leave(client)


class TestPlaces:
    @KINDS
    def test_a_unix_socket(self, server: EmbeddedServer, opened: Any, kind: str, namespace: str) -> None:
        with EmbeddedServer(binary=server.binary) as local:
            assert local.url.startswith("unix://")
            opened.append(connect(local.url))
            live(opened[0], kind, namespace)

    @KINDS
    def test_a_database_other_than_0(
        self, server: EmbeddedServer, redis: Redis, opened: Any, kind: str, namespace: str
    ) -> None:
        opened.append(connect(server.url.removesuffix("/0") + "/3"))
        live(opened[0], kind, namespace)
        durable_on(opened[0], kind, namespace).arrive("left", "a", 1)
        assert len([key for key in opened[0].scan_iter(f"*{namespace}*")]) >= 2
        assert [key for key in redis.scan_iter(f"*{namespace}*")] == []
        with pytest.raises(ValueError, match="two databases"):
            RedisDurable(RedisCheckpointer(opened[0], namespace), RedisSetScheduler(redis, namespace))

    @KINDS
    def test_tls_with_client_certificates(
        self, server: EmbeddedServer, opened: Any, tmp_path: Path, kind: str, namespace: str
    ) -> None:
        try:
            with tls_server(str(server.binary), tmp_path) as tls:
                opened.append(connect(tls.url, **tls.certificates.options))
                live(opened[0], kind, namespace)
                authority = tls.certificates.options["ssl_ca_certs"]
                stranger = certificates(tmp_path / "stranger").options
                for options in ({"ssl_ca_certs": authority}, stranger):
                    opened.append(connect(tls.url, retry=None, **options))
                    with pytest.raises(RedisConnectionError):
                        opened[-1].ping()
        except servers.Missing as why:
            pytest.skip(str(why))


def turn(admin: Any, *words: str) -> None:
    """Tell a server to be otherwise."""
    admin.execute_command(*words)


class TestAcl:
    def line(self, namespace: str) -> list[str]:
        """The words of the line that the operators' page gives, for `namespace`."""
        found = re.search(r"^ACL SETUSER durably (.+)$", PAGE.read_text(), re.MULTILINE)
        assert found is not None
        pattern = re.sub(r"([*?\[\]\\^])", r"\\\1", namespace)
        return found[1].replace("workflow", pattern).replace("PASSWORD", "secret").split()

    @pytest.fixture
    def limited(
        self, request: pytest.FixtureRequest, server: EmbeddedServer, redis: Redis, namespace: str
    ) -> Iterator[tuple[Redis, str]]:
        """A client that may do what the page allows, and the namespace it may do it in."""
        own = f"{namespace}{request.param}"
        turn(redis, "ACL", "SETUSER", namespace, *self.line(own))
        client = connect(server.url, username=namespace, password="secret")
        yield client, own
        client.close()
        turn(redis, "ACL", "DELUSER", namespace)

    @KINDS
    @pytest.mark.parametrize("limited", ["", "[a-z]*?"], indirect=True)
    def test_the_line_on_the_operators_page_is_enough(self, limited: tuple[Redis, str], kind: str) -> None:
        client, own = limited
        live(client, kind, own)

    @KINDS
    @pytest.mark.parametrize("limited", [""], indirect=True)
    def test_what_is_not_the_namespaces_is_refused(
        self, redis: Redis, limited: tuple[Redis, str], kind: str
    ) -> None:
        client, own = limited
        durable_on(redis, kind, f"x{own}").arrive("w", "a", 1)
        other = durable_on(client, kind, f"x{own}")
        refused: list[Callable[[], Any]] = [
            partial(other.arrive, "w", "b", 1),
            partial(other.checkpointer.load, "w"),
            partial(other.scheduler.make_ready, "w"),
            partial(client.get, "elsewhere"),
            partial(client.flushall),
            partial(client.keys),
            partial(client.config_set, "maxmemory", 0),
            partial(client.eval, "return redis.call('GET', 'elsewhere')", 0),
        ]
        for call in refused:
            with pytest.raises(ResponseError) as refusal:
                call()
            in_script = re.search("can't access|No permissions to access", str(refusal.value))
            assert in_script or isinstance(refusal.value, NoPermissionError)

    def test_a_wrong_password_is_told_at_once(self, server: EmbeddedServer, opened: Any) -> None:
        opened.append(connect(server.url, username="nobody", password="wrong", retry=None))
        began = time.monotonic()
        with pytest.raises(AuthenticationError):
            RedisCheckpointer(opened[0]).load("w")
        assert time.monotonic() - began < 2


class TestSentinelClients:
    """What is told from a client alone: no server runs here."""

    def client(self, opened: Any, name: str = "one", *ports: int, **options: Any) -> Redis:
        made = sentinel_client([("127.0.0.1", port) for port in ports or (1, 2, 3)], name, **options)
        opened.append(made)
        return made

    def test_one_client_serves_both_halves(self, opened: Any) -> None:
        client = self.client(opened)
        RedisDurable(RedisCheckpointer(client), RedisStreamScheduler(client))
        assert socket_timeout(client) == 2.0

    def test_masters_are_told_apart(self, opened: Any, redis: Redis) -> None:
        client = self.client(opened)
        assert same_database(client, self.client(opened))
        assert same_database(client, self.client(opened, "one", 3, 4))
        assert same_database(client, self.client(opened, db=0))
        for other in (
            self.client(opened, "two"),
            self.client(opened, "one", 4, 5),
            self.client(opened, db=1),
            redis,
        ):
            assert not same_database(client, other)
            assert not same_database(other, client)
            with pytest.raises(ValueError, match="two databases"):
                RedisDurable(RedisCheckpointer(client), RedisSetScheduler(other))

    def test_a_replica_is_refused(self, opened: Any) -> None:
        client = self.client(opened, replica=True)
        for made in (RedisCheckpointer, RedisStreamScheduler, RedisSetScheduler):
            with pytest.raises(ValueError, match="master_for"):
                made(client)


class Switching(SentinelTopology):
    """The master is not killed: it becomes a replica under its clients."""

    def kill_master(self) -> None:
        self.switch()


class TestFailover:
    def test_what_a_replica_had_is_neither_lost_nor_doubled(self, server: EmbeddedServer) -> None:
        with SentinelTopology(str(server.binary)) as topology:
            report = failover(topology, "stream", 300, confirmed=True)
        assert report.holds and not report.lost and report.finished == 300, str(report)
        assert report.pause < 30, str(report)

    def test_a_failover_in_the_middle_of_submissions_that_takes_its_time(
        self, server: EmbeddedServer
    ) -> None:
        with SentinelTopology(str(server.binary), down_after=4000) as topology:
            report = failover(topology, "set", 300)
        assert report.holds, str(report)
        assert 4 < report.pause < 40, str(report)

    def test_a_master_that_becomes_a_replica(self, server: EmbeddedServer) -> None:
        with Switching(str(server.binary)) as topology:
            report = failover(topology, "stream", 300)
        assert report.holds, str(report)


CHANGES: dict[str, tuple[list[tuple[str, ...]], list[tuple[str, ...]]]] = {
    "READONLY": ([("REPLICAOF", "127.0.0.1", "1")], [("REPLICAOF", "NO", "ONE")]),
    "MASTERDOWN": (
        [("CONFIG", "SET", "replica-serve-stale-data", "no"), ("REPLICAOF", "127.0.0.1", "1")],
        [("REPLICAOF", "NO", "ONE")],
    ),
    "NOREPLICAS": (
        [("CONFIG", "SET", "min-replicas-to-write", "1")],
        [("CONFIG", "SET", "min-replicas-to-write", "0")],
    ),
}
"""What makes a server refuse, and what ends it."""


class TestAServerThatIsNoMaster:
    @KINDS
    @pytest.mark.parametrize("says", CHANGES)
    def test_calls_outlast_it(
        self, own_server: EmbeddedServer, opened: Any, says: str, kind: str, namespace: str
    ) -> None:
        admin, client = connect(own_server.url), connect(own_server.url)
        opened += [admin, client]
        durable = durable_on(client, kind, namespace)
        store, queue = durable.checkpointer, durable.scheduler
        queue.prepare()
        holder = claimed(store, "w")
        queue.make_ready("w")
        delivery = queue.next_ready(ms(1000))
        assert delivery is not None
        count = LuaEffect(COUNT, keys=(f"{namespace}:{{w}}:count",))
        before, after = CHANGES[says]
        for words in before:
            turn(admin, *words)
        calls: list[Callable[[], Any]] = [
            partial(store.extend, holder, ms(60_000)),
            partial(store.record, holder, "a", 1),
            partial(store.transact, holder, "count", count),
            partial(durable.arrive, "w", "b", 2),
            partial(queue.make_ready, "other"),
            partial(open_pass, durable, delivery, ms(60_000), ms(60_000)),
        ]
        running = [Started(call) for call in calls]
        sleep(0.5)
        with pytest.raises(ResponseError):
            admin.set("x", "1")
        for words in after:
            turn(admin, *words)
        answers = [one.result(20) for one in running]
        assert answers[0] is True and answers[1].first and answers[2] == 1 and answers[3] == 2
        assert client.get(f"{namespace}:{{w}}:count") == "1"

    def test_it_is_said_in_the_end(self, own_server: EmbeddedServer, opened: Any, namespace: str) -> None:
        admin, client = connect(own_server.url), connect(own_server.url)
        opened += [admin, client]
        turn(admin, "REPLICAOF", "127.0.0.1", "1")
        began = time.monotonic()
        with pytest.raises(ResponseError) as refusal:
            RedisCheckpointer(client, namespace).claim("w")
        assert isinstance(refusal.value, ReadOnlyError) or "READONLY" in str(refusal.value)
        assert 2.5 < time.monotonic() - began < 10

    @KINDS
    def test_the_next_connection_goes_to_the_new_master(
        self, server: EmbeddedServer, own_server: EmbeddedServer, opened: Any, kind: str, namespace: str
    ) -> None:
        """An address that leads elsewhere by then: the connections to the old master must not be kept."""
        with serving(own_server) as proxy:
            admin, client = connect(own_server.url), connect(proxy.url)
            opened += [admin, client]
            durable = durable_on(client, kind, namespace)
            durable.arrive("w", "a", 1)
            turn(admin, "REPLICAOF", "127.0.0.1", "1")
            proxy.upstream = server.port
            durable.arrive("w", "b", 2)
            durable.scheduler.make_ready("v")
        assert not admin.exists(f"{namespace}:{{v}}")
        here = connect(server.url)
        opened.append(here)
        assert set(durable_on(here, kind, namespace).checkpointer.load("w")) == {"b"}
