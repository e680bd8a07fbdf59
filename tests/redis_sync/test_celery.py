"""Passes as Celery tasks: a real worker (prefork) on a real broker, killed outright. Written by hand."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from durably.embedded import EmbeddedServer
from durably_redis_sync import (
    MemoryCheckpointer,
    MemoryScheduler,
    RedisCheckpointer,
    RedisSetScheduler,
    RedisStreamScheduler,
    SplitDurable,
)
from durably_redis_sync.celery import durable_task
from redis import Redis
from support import ms
from support_sync import eventually

APP = """
import os, time
from datetime import timedelta
from celery import Celery
from redis import Redis
from durably_redis_sync import RedisCheckpointer, RedisSetScheduler, RedisStreamScheduler, SplitDurable
from durably_redis_sync.celery import durable_task

URL, NAMESPACE, KIND = (os.environ[name] for name in ("URL", "NAMESPACE", "KIND"))
app = Celery("app", broker=URL)
app.conf.update(
    broker_transport_options={"visibility_timeout": 1},
    task_acks_late=True,
    worker_prefetch_multiplier=1,
    task_default_queue=NAMESPACE,
    broker_connection_retry_on_startup=True,
)
redis = Redis.from_url(URL, decode_responses=True)
lease = timedelta(milliseconds=800)
queue = (
    RedisStreamScheduler(redis, NAMESPACE, lease=lease)
    if KIND == "stream"
    else RedisSetScheduler(redis, NAMESPACE, lease=lease)
)
durable = SplitDurable(RedisCheckpointer(redis, NAMESPACE), queue)
log = f"{NAMESPACE}:log"


def order(run):
    def charge():
        redis.rpush(log, f"charge {run.workflow}")
        return True

    def ship():
        redis.rpush(log, f"ship {run.workflow}")
        if run.workflow == "hangs" and redis.incr(f"{NAMESPACE}:tries") == 1:
            redis.set(f"{NAMESPACE}:pid", os.getpid())
            time.sleep(60)
        if run.workflow == "fails" and redis.incr(f"{NAMESPACE}:fails") < 3:
            raise LookupError("no")
        return True

    run.step("charged", charge, bool)
    run.sleep("settle", timedelta(seconds=3) if run.workflow == "sleeps" else timedelta(milliseconds=50))
    if run.workflow == "waits":
        run.awaiting("approval", str)
    run.step("shipped", ship, bool)
    redis.rpush(log, f"end {run.workflow}")


task = durable_task(app, durable, order, name="order", tick=timedelta(milliseconds=200))
"""


@pytest.fixture(params=["stream", "set"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def fleet(own_server: EmbeddedServer, namespace: str, kind: str, tmp_path: Path) -> Iterator[Any]:
    """Starts Celery workers in process groups of their own; ends what is left."""
    (tmp_path / "fleet_app.py").write_text(APP)
    env = {**os.environ, "URL": own_server.url, "NAMESPACE": namespace, "KIND": kind}
    command = [sys.executable, "-m", "celery", "-A", "fleet_app", "worker", "-P", "prefork", "-c", "2"]
    started: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        log = (tmp_path / f"worker{len(started)}.log").open("wb")
        with log:
            one = subprocess.Popen(
                [
                    *command,
                    "-l",
                    "info",
                    "-n",
                    f"w{len(started)}@local",
                    "--without-gossip",
                    "--without-mingle",
                ],
                cwd=tmp_path,
                env=env,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        started.append(one)
        return one

    yield start
    for one in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(one.pid, signal.SIGKILL)
        one.wait()


def test_a_fleet_of_celery_runs_sleeps_waits_fails_and_is_killed(
    own_server: EmbeddedServer, namespace: str, kind: str, fleet: Any
) -> None:
    redis = Redis.from_url(own_server.url, decode_responses=True)
    lease = ms(800)
    queue: Any = (
        RedisStreamScheduler(redis, namespace, lease=lease)
        if kind == "stream"
        else RedisSetScheduler(redis, namespace, lease=lease)
    )
    durable: SplitDurable[Any] = SplitDurable(RedisCheckpointer(redis, namespace), queue)
    app = Celery("client", broker=own_server.url)
    app.conf.task_default_queue = namespace

    def log() -> list[str]:
        lines: Any = redis.lrange(f"{namespace}:log", 0, -1)
        return list(lines)

    first = fleet()
    names = ["plain", "sleeps", "waits", "fails", "hangs"]
    for name in names[:3]:
        app.send_task("order", [name])
    for name in names[3:]:
        durable.scheduler.make_ready(name)
    eventually(lambda: redis.get(f"{namespace}:pid"), describing="a pass hangs", within=40)

    def settled() -> bool:  # killed between an effect and its record a step would run again, as it may
        charged = all("charged" in durable.checkpointer.load(name) for name in names)
        return charged and "end plain" in log()

    eventually(settled, describing="all are charged, and one is done", within=40)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    fleet()
    eventually(lambda: "end hangs" in log() and "end fails" in log(), describing="taken over", within=40)
    assert "end waits" not in log()
    durable.arrive("waits", "approval", "granted")
    eventually(lambda: {f"end {one}" for one in names} <= set(log()), describing="all end", within=40)
    lines = log()
    for name in names:
        assert lines.count(f"charge {name}") == 1, (name, lines)
    assert lines.count("ship plain") == lines.count("ship sleeps") == 1
    assert lines.count("ship hangs") == 2 and lines.count("ship fails") >= 3
    eventually(lambda: queue.available(10) == 0, describing="nothing waits", within=20)
    for name in names:
        assert durable.checkpointer.claim(name) is not None
    redis.close()
    app.close()


def test_what_cannot_be_a_task_is_refused(redis: Redis, namespace: str) -> None:
    app = Celery("app", broker="memory://")

    def body(run: Any) -> None:
        return None

    with pytest.raises(TypeError, match="MemoryScheduler"):
        durable_task(app, SplitDurable(MemoryCheckpointer(), MemoryScheduler()), body)
    durable: SplitDurable[Any] = SplitDurable(
        RedisCheckpointer(redis, namespace), RedisStreamScheduler(redis, namespace)
    )
    for option in ("budget", "contended", "tick"):
        options: Any = {option: timedelta(0)}
        with pytest.raises(ValueError, match=option):
            durable_task(app, durable, body, **options)
    task = durable_task(app, durable, body)
    durable.scheduler.prepare()
    assert task("w") == "w: completed"
    assert task() is None
    with pytest.raises(ValueError):
        task("")
    app.close()


def test_what_is_available_is_counted(redis: Redis, namespace: str) -> None:
    queues: list[Any] = [
        RedisStreamScheduler(redis, namespace, lease=ms(50)),
        RedisSetScheduler(redis, namespace, lease=ms(50)),
    ]
    for queue in queues:
        assert queue.available(5) == 0
        queue.make_ready("w0")
        assert queue.available(5) == 1
        queue.prepare()
        for n in range(7):
            queue.make_ready(f"w{n}")
        taken = queue.next_ready(ms(10))
        left = queue.available(100)
        assert left >= 6 and queue.available(3) == 3

        def abandoned(queue: Any = queue, wanted: int = left + 1) -> bool:
            return bool(queue.available(100) == wanted)

        eventually(abandoned, describing="it is abandoned")
        queue.done(taken)
