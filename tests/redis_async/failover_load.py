"""Workflows under way while a master dies: what is submitted, what the promoted server holds, what comes of it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import uuid4

import support_async
from durably_redis_async import (
    LuaEffect,
    NotDurable,
    RedisCheckpointer,
    RedisDurable,
    RedisSetScheduler,
    RedisStreamScheduler,
    Run,
    SplitDurable,
    sweep,
    work,
)
from support import ms, same
from support_async import Event, Started, eventually, leave, sleep, together
from topologies import Topology

SUBMITTERS = 4
_NAP = ms(200)
_COUNT = "return tostring(redis.call('INCR', KEYS[1]))"


@dataclass(frozen=True)
class Report:
    """What came of one failover.

    `lost`: submissions that were acknowledged and that the promoted server does not hold. `unfinished`: those it holds
    that did not end. `effects`: ended ones whose effect did not happen exactly once, with how often it did. `swept`: those
    whose wakeup the server lost while another one kept their records, so that a sweep had to find them. `pause`: seconds
    from the kill to the next workflow's end.
    """

    workflows: int
    finished: int
    lost: list[str]
    unfinished: list[str]
    effects: dict[str, int]
    swept: set[str]
    pause: float

    @property
    def holds(self) -> bool:
        """Whether nothing was lost that the server kept, and no effect doubled."""
        return not self.unfinished and not self.effects

    def __str__(self) -> str:
        return (
            f"{self.workflows} workflows: {self.finished} finished, {len(self.lost)} lost by the server, "
            f"{len(self.unfinished)} unfinished, {len(self.effects)} effects not exactly once, "
            f"{len(self.swept)} woken by a sweep, "
            f"going on after {self.pause:.2f} s"
        )


class Load:
    """One worker, several submitters, and a topology whose master is killed half-way."""

    def __init__(self, topology: Topology, scheduler: str, workflows: int, durability: Any) -> None:
        self.topology = topology
        self.durability = durability
        self.workflows = workflows
        self.namespace = f"f{uuid4().hex[:12]}"
        self.client = topology.client(support_async)
        self.submitting = topology.client(support_async)
        self.durable = self._durable(self.client, scheduler)
        self.submitter = self._durable(self.submitting, scheduler)
        self.acknowledged: list[str] = []
        self.ends: list[float] = []
        self.swept: set[str] = set()

    def _durable(self, client: Any, scheduler: str) -> Any:
        store = RedisCheckpointer(
            client, self.namespace, durability=self.durability, acknowledged_within=ms(1000)
        )
        kind: Any = RedisStreamScheduler if scheduler == "stream" else RedisSetScheduler
        queue = kind(client, self.namespace, lease=ms(2000))
        aim: Any = getattr(self.topology, "aim", None)
        if aim is None:
            return RedisDurable(store, queue)
        aim(queue.ready_key if scheduler == "stream" else queue.schedule_key)
        return SplitDurable(store, queue)

    def counter(self, workflow: str) -> str:
        """The key that the effect of a workflow counts in: in the namespace, and in the workflow's slot."""
        return f"{self.namespace}:{{{workflow}}}:count"

    async def body(self, run: Run) -> None:
        """Three steps and a sleep."""

        async def reserve() -> str:
            return run.workflow

        await run.awaiting("order", same)
        await run.step("reserve", reserve, same)
        await run.transact("count", LuaEffect(_COUNT, keys=(self.counter(run.workflow),)), same)
        await run.sleep("nap", _NAP)
        await run.step("finish", reserve, same)
        self.ends.append(time.monotonic())

    async def submit(self, first: int, last: int) -> None:
        """Start the workflows `first` to `last`, one after the other."""
        for n in range(first, last):
            workflow = f"w{n}"
            await self._start(workflow, n)
            self.acknowledged.append(workflow)

    async def _start(self, workflow: str, n: int) -> None:
        """Start one, over and over until it is as durable as was asked: it is recorded once."""
        while True:
            try:
                await self.submitter.arrive(workflow, "order", n)
                return
            except NotDurable:
                continue

    async def replicated(self) -> None:
        """Wait until a replica has everything that was written before."""
        known: Any = getattr(self.topology, "replicated", None)
        if known is not None:
            known()
            return
        pipe = self.submitting.pipeline(transaction=False)
        pipe.set(f"{self.namespace}:mark", "1")
        pipe.wait(1, 10_000)
        _, reached = await pipe.execute()
        assert reached >= 1, "no replica followed"

    async def run(self, *, confirmed: bool) -> Report:
        """Submit, kill, and see what becomes of it. `confirmed`: all is submitted, and replicated, before the kill."""
        stop = Event()
        await self.durable.scheduler.prepare()
        worker = Started(partial(work, limit=20, within=ms(200), stop=stop), self.durable, self.body)
        try:
            report = await self._run(confirmed)
        finally:
            stop.set()
            await worker.result(60)
        return report

    async def _run(self, confirmed: bool) -> Report:
        share = -(-self.workflows // SUBMITTERS)
        calls = [
            partial(self.submit, first, min(first + share, self.workflows))
            for first in range(0, self.workflows, share)
        ]
        submitting = Started(together, *calls)
        await self._count(self.workflows if confirmed else self.workflows // 2)
        if confirmed:
            await self.replicated()
        killed = time.monotonic()
        self.topology.kill_master()

        async def promoted() -> bool:
            return self.topology.promoted()

        await eventually(promoted, describing="a replica is promoted", within=60)
        await submitting.result(60)
        assert len(self.acknowledged) == self.workflows
        kept = [one for one in self.acknowledged if "order" in await self._recorded(one)]
        unfinished = await self._wait(kept)
        finished = [one for one in kept if one not in set(unfinished)]
        counts = {one: int(await self.client.get(self.counter(one)) or 0) for one in finished}
        return Report(
            workflows=self.workflows,
            finished=len(finished),
            lost=[one for one in self.acknowledged if one not in set(kept)],
            unfinished=unfinished,
            swept=self.swept,
            effects={one: count for one, count in counts.items() if count != 1},
            pause=min((at - killed for at in self.ends if at > killed + 0.2), default=float("inf")),
        )

    async def _count(self, enough: int) -> None:
        async def reached() -> bool:
            return len(self.acknowledged) >= enough

        await eventually(reached, describing=f"{enough} are submitted", within=120)

    async def _recorded(self, workflow: str) -> Any:
        return await self.durable.checkpointer.load(workflow)

    async def _wait(self, workflows: list[str]) -> list[str]:
        """Those that have not ended, with half a minute to go on and as long as any of them still does."""
        left, moved = list(workflows), time.monotonic()
        while left and time.monotonic() < moved + 30:
            await sleep(0.1)
            before = len(left)
            left = [one for one in left if "finish" not in await self._recorded(one)]
            if len(left) < before:
                moved = time.monotonic()
            elif time.monotonic() > moved + 8:
                await self._sweep()
        return left

    async def _sweep(self) -> None:
        """What workers do by themselves, every few minutes."""
        found = await sweep(self.durable, settled=ms(3000))
        self.swept.update(found.woken, found.asleep)

    async def aclose(self) -> None:
        """Close the clients."""
        await leave(self.client)
        await leave(self.submitting)


async def failover(
    topology: Topology,
    scheduler: str,
    workflows: int,
    *,
    confirmed: bool = False,
    durability: str = "memory",
) -> Report:
    """What becomes of `workflows` when the master of a started topology is killed. `scheduler`: `stream` or `set`.

    `durability`: what submitters and workers ask for.
    """
    load = Load(topology, scheduler, workflows, durability)
    try:
        return await load.run(confirmed=confirmed)
    finally:
        await load.aclose()
