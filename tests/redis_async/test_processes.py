"""Worker processes that are stopped past their lease, or killed: what they may still write, and what others do again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from durably.embedded import EmbeddedServer
from durably.keys import pass_key
from durably_redis_async import RedisCheckpointer, RedisSetScheduler, RedisStreamScheduler, now_utc
from redis.asyncio import Redis
from support import ms
from support_async import eventually

CHILD = Path(__file__).with_name("process_child.py")
WRITTEN_BEFORE = {
    "record": 1,
    "transact": 2,
    "extend": 3,
    "renew": 3,
    "suspend": 4,
    "release": 5,
    "finish": 5,
}
"""Each write, and how many of the steps a to e are recorded when a process is stopped right before it. Some go
together: the renewal of a claim with that of its delivery, the end of a claim with the delivery's answer."""


@dataclass(frozen=True)
class Said:
    """A write of the first process's: in which workflow, which one, whether it was refused, and when it was sent."""

    workflow: str
    name: str
    refused: bool
    sent: float


@dataclass
class Crew:
    """The processes of one test, and what they share with it."""

    redis: Redis
    url: str
    namespace: str
    scheduler: str
    folder: Path
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)
    stopped: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.store = RedisCheckpointer(self.redis, self.namespace)
        self.queue: RedisStreamScheduler | RedisSetScheduler
        if self.scheduler == "stream":
            self.queue = RedisStreamScheduler(self.redis, self.namespace)
        else:
            self.queue = RedisSetScheduler(self.redis, self.namespace)

    def key(self, *parts: str) -> str:
        return ":".join((self.namespace, "test", *parts))

    async def start(
        self, name: str, count: int = 1, *, limit: int = 1, at: int = 0
    ) -> list[subprocess.Popen[bytes]]:
        """Start processes called `name`, and wait until all are there; none takes anything before `let`."""
        await self.hold(name)
        settings = {
            "url": self.url,
            "namespace": self.namespace,
            "scheduler": self.scheduler,
            "name": name,
            "limit": limit,
            "at": at,
        }
        started: list[subprocess.Popen[bytes]] = []
        for _ in range(count):
            with (self.folder / f"{len(self.running)}.log").open("wb") as log:
                child = subprocess.Popen([sys.executable, str(CHILD), json.dumps(settings)], stderr=log)
            self.running.append(child)
            started.append(child)
        await self.idle(name, count)
        return started

    async def hold(self, name: str) -> None:
        """Let no process called `name` take anything."""
        await self.redis.delete(self.key("idle", name))
        await self.redis.set(self.key("held", name), 1)

    async def idle(self, name: str, count: int) -> None:
        """Wait until `count` held processes would take something."""
        await self.number_of(self.key("idle", name), count)

    async def let(self, name: str) -> None:
        """Hold processes called `name` no longer."""
        await self.redis.delete(self.key("held", name))

    async def ready(self, *workflows: str) -> None:
        for workflow in workflows:
            await self.queue.make_ready(workflow)

    async def inside(self, workflow: str) -> None:
        """Wait until a pass over `workflow` has come to where it waits."""
        await self.number_of(self.key("at", workflow), 1)

    async def open(self, *workflows: str) -> None:
        """Let the passes over `workflows` go on to their finish."""
        for workflow in workflows:
            await self.redis.set(self.key("open", workflow), 1)

    async def number_of(self, key: str, count: int) -> None:
        async def all_there() -> bool:
            raw: Any = self.redis
            return int(await raw.scard(key)) >= count

        await eventually(all_there, describing=f"{count} processes in {key}", within=30)

    async def ends(self, workflow: str) -> list[str]:
        """Which processes' bodies came to their end."""
        raw: Any = self.redis
        ended: list[str] = await raw.lrange(self.key("ends", workflow), 0, -1)
        return ended

    async def all_over(self, *workflows: str) -> None:
        """Wait until every body has come to an end, and no wakeup is left."""

        async def over() -> bool:
            return all([await self.ends(one) for one in workflows]) and await self.outstanding() == []

        await eventually(over, describing=f"{workflows} end", within=30)

    async def outstanding(self) -> list[str]:
        """Every wakeup that is asked for or not answered for: the stream by consumer, the set by workflow."""
        raw: Any = self.redis
        if isinstance(self.queue, RedisSetScheduler):
            visible: list[str] = await raw.zrange(self.queue.schedule_key, 0, -1)
            return visible
        stream, group = self.queue.ready_key, self.queue.group
        rows = await raw.xpending_range(stream, group, "-", "+", 100)
        (info,) = await raw.xinfo_groups(stream)
        unread = await raw.xrange(stream, f"({info['last-delivered-id']}")
        sleeping = await raw.zrange(self.queue.sleeping_key, 0, -1)
        return [*(row["consumer"] for row in rows), *("unread" for _ in unread), *sleeping]

    async def count(self, workflow: str, step: str) -> int:
        """How often the effect of `step` has happened."""
        return int(await self.redis.get(f"{self.namespace}:test:{{{workflow}}}:{step}") or 0)

    async def writers(self, workflow: str) -> list[object]:
        """Who recorded the steps a to e."""
        recorded = await self.store.load(workflow)
        assert set(recorded) - {"nap"} == set("abcde")
        return [recorded[step] for step in "abcde"]

    async def said(self, since: float) -> list[Said]:
        """What the first processes wrote, from `since` on, and what they were answered."""
        raw: Any = self.redis
        lines = [Said(*json.loads(line)) for line in await raw.lrange(self.key("said"), 0, -1)]
        return [one for one in lines if one.sent >= since]

    async def stopped_all(self, children: list[subprocess.Popen[bytes]]) -> None:
        """Wait until SIGSTOP has stopped each."""

        async def look() -> bool:
            for child in children:
                if child.pid not in self.stopped:
                    pid, status = os.waitpid(child.pid, os.WNOHANG | os.WUNTRACED)
                    assert pid == 0 or os.WIFSTOPPED(status), f"a process ended: {status}"
                    self.stopped |= {pid} - {0}
            return self.stopped >= {child.pid for child in children}

        await eventually(look, describing="the processes are stopped", within=30)

    def go_on(self, children: list[subprocess.Popen[bytes]]) -> float:
        """Let stopped processes go on; the moment before."""
        moment = time.monotonic()
        for child in children:
            os.kill(child.pid, signal.SIGCONT)
        return moment

    async def ended(self, *children: subprocess.Popen[bytes], code: int) -> None:
        """Wait until each has ended in this way."""

        async def look() -> bool:
            return all(child.poll() is not None for child in children)

        await eventually(look, describing="the processes end", within=30)
        assert [child.returncode for child in children] == [code] * len(children)

    async def send_home(self, child: subprocess.Popen[bytes]) -> None:
        """End a worker in good order."""
        child.terminate()
        await self.ended(child, code=0)

    def kill_all(self) -> None:
        """End what still runs, or is stopped, and show what all have complained of."""
        for number, child in enumerate(self.running):
            if child.poll() is None:
                child.kill()
                child.wait()
            print(number, child.returncode, (self.folder / f"{number}.log").read_text(errors="replace"))


@pytest.fixture(params=["stream", "set"])
async def crew(
    request: pytest.FixtureRequest, server: EmbeddedServer, redis: Redis, namespace: str, tmp_path: Path
) -> AsyncIterator[Crew]:
    """A crew over each queue."""
    made = Crew(redis, server.url, namespace, request.param, tmp_path)
    await made.queue.prepare()
    try:
        yield made
    finally:
        made.kill_all()


async def test_a_process_that_was_stopped_past_its_lease_can_write_nothing_and_lives_on(crew: Crew) -> None:
    (first,) = await crew.start("first")
    (second,) = await crew.start("second")
    await crew.ready("here")
    await crew.let("first")
    await crew.inside("here")
    first.send_signal(signal.SIGSTOP)
    await crew.stopped_all([first])
    await crew.hold("first")

    await crew.let("second")
    await crew.open("here")
    await crew.all_over("here")
    assert await crew.ends("here") == ["second"]
    assert await crew.writers("here") == ["first", "first", "first", "second", "second"]
    records = await crew.store.history("here")
    raw: Any = crew.redis
    claim = await raw.hgetall(pass_key(crew.namespace, "here"))

    since = crew.go_on([first])
    await crew.idle("first", 1)
    said = await crew.said(since)
    assert [one for one in said if not one.refused] == []
    assert {one.name for one in said} == {*WRITTEN_BEFORE, "hold"}
    assert await crew.store.history("here") == records
    assert await raw.hgetall(pass_key(crew.namespace, "here")) == claim
    assert await crew.outstanding() == []
    assert [await crew.count("here", step) for step in "abcde"] == [1, 1, 1, 2, 1]
    assert await crew.count("here", "late") == 0
    assert await crew.ends("here") == ["second"]

    await crew.send_home(second)
    await crew.let("first")
    await crew.open("later")
    await crew.ready("later")
    await crew.all_over("later")
    assert await crew.ends("later") == ["first"] and first.poll() is None


async def test_each_write_of_a_stopped_process_is_refused_while_another_is_in_the_middle(crew: Crew) -> None:
    points = [*WRITTEN_BEFORE]
    late = [f"later{n}" for n in range(len(points))]
    firsts = await crew.start("first", len(points), at=signal.SIGSTOP)
    (second,) = await crew.start("second", limit=len(points))
    await crew.ready(*points)
    await crew.let("first")
    await crew.stopped_all(firsts)
    await crew.hold("first")

    await crew.redis.delete(*(crew.key("at", point) for point in points))
    await crew.let("second")
    for point in points:
        await crew.inside(point)
    since = crew.go_on(firsts)
    await crew.idle("first", len(points))
    wanted = {(point, point) for point in points} | {("renew", "hold")}

    async def all_said() -> bool:
        return wanted <= {(one.workflow, one.name) for one in await crew.said(since)}

    await eventually(all_said, describing="every stopped write is said")
    assert [one for one in await crew.said(since) if not one.refused] == []
    held = await crew.outstanding()
    assert len(held) == len(points)
    if crew.scheduler == "stream":
        assert {name.split("-")[0] for name in held} == {"second"}

    await crew.open(*points)
    await crew.all_over(*points)
    for point, count in WRITTEN_BEFORE.items():
        assert await crew.writers(point) == ["first"] * count + ["second"] * (5 - count), point
        assert await crew.ends(point) == ["first"] * (count == 5) + ["second"], point
        assert [await crew.count(point, step) for step in "ce"] == [1, 1], point
        assert await crew.count(point, "a") == 1, point

    await crew.send_home(second)
    await crew.let("first")
    await crew.ready(*late)
    for workflow in late:
        await crew.inside(workflow)
    await crew.open(*late)
    await crew.all_over(*late)
    assert [child.poll() for child in firsts] == [None] * len(firsts)


async def test_what_a_killed_process_had_begun_is_finished_once_by_another(crew: Crew) -> None:
    workflows = [f"here{n}" for n in range(3)]
    (first,) = await crew.start("first", limit=3)
    await crew.start("second", limit=3)
    await crew.ready(*workflows)
    await crew.let("first")
    for workflow in workflows:
        await crew.inside(workflow)
    await crew.let("second")
    first.send_signal(signal.SIGKILL)
    await crew.ended(first, code=-signal.SIGKILL)
    raw: Any = crew.redis
    lapses = {one: int(await raw.hget(pass_key(crew.namespace, one), "alive")) for one in workflows}

    await crew.open(*workflows)
    await crew.all_over(*workflows)
    for workflow in workflows:
        assert int(await raw.hget(pass_key(crew.namespace, workflow), "token")) >= lapses[workflow]
        assert await crew.ends(workflow) == ["second"]
        assert await crew.writers(workflow) == ["first", "first", "first", "second", "second"]
        assert [await crew.count(workflow, step) for step in "abcde"] == [1, 1, 1, 2, 1]
    assert await crew.queue.reclaim(ms(0)) is None and await crew.queue.wake_due(now_utc()) == ()


async def test_a_step_without_a_record_runs_again_and_a_transacted_one_never_does(crew: Crew) -> None:
    effects = {"record": (2, 1), "transact": (1, 1), "transacted": (1, 1)}
    firsts = await crew.start("first", len(effects), at=signal.SIGKILL)
    await crew.start("second", limit=len(effects))
    await crew.ready(*effects)
    await crew.let("first")
    await crew.ended(*firsts, code=-signal.SIGKILL)
    done = {one: (await crew.count(one, "b"), await crew.count(one, "c")) for one in effects}
    assert done == {"record": (1, 0), "transact": (1, 0), "transacted": (1, 1)}
    before = {one: list(await crew.store.load(one)) for one in effects}
    assert before == {"record": ["a"], "transact": ["a", "b"], "transacted": ["a", "b", "c"]}

    await crew.open(*effects)
    await crew.let("second")
    await crew.all_over(*effects)
    for workflow, expected in effects.items():
        assert (await crew.count(workflow, "b"), await crew.count(workflow, "c")) == expected, workflow
        assert [await crew.count(workflow, step) for step in "ade"] == [1, 1, 1], workflow
        assert await crew.ends(workflow) == ["second"], workflow
        kept = len(before[workflow])
        assert await crew.writers(workflow) == ["first"] * kept + ["second"] * (5 - kept), workflow
