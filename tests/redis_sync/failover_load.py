# Generated from tests/redis_async/failover_load.py by twin.py. Edit that file.
"""Workflows under way while a master dies: what is submitted, what the promoted server holds, what comes of it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import uuid4

import support_sync
from durably_redis_sync import (
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
from support_sync import Event, Started, eventually, leave, sleep, together
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
        self.client = topology.client(support_sync)
        self.submitting = topology.client(support_sync)
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

    def body(self, run: Run) -> None:
        """Three steps and a sleep."""

        def reserve() -> str:
            return run.workflow

        run.awaiting("order", same)
        run.step("reserve", reserve, same)
        run.transact("count", LuaEffect(_COUNT, keys=(self.counter(run.workflow),)), same)
        run.sleep("nap", _NAP)
        run.step("finish", reserve, same)
        self.ends.append(time.monotonic())

    def submit(self, first: int, last: int) -> None:
        """Start the workflows `first` to `last`, one after the other."""
        for n in range(first, last):
            workflow = f"w{n}"
            self._start(workflow, n)
            self.acknowledged.append(workflow)

    def _start(self, workflow: str, n: int) -> None:
        """Start one, over and over until it is as durable as was asked: it is recorded once."""
        while True:
            try:
                self.submitter.arrive(workflow, "order", n)
                return
            except NotDurable:
                continue

    def replicated(self) -> None:
        """Wait until a replica has everything that was written before."""
        known: Any = getattr(self.topology, "replicated", None)
        if known is not None:
            known()
            return
        pipe = self.submitting.pipeline(transaction=False)
        pipe.set(f"{self.namespace}:mark", "1")
        pipe.wait(1, 10_000)
        _, reached = pipe.execute()
        assert reached >= 1, "no replica followed"

    def run(self, *, confirmed: bool) -> Report:
        """Submit, kill, and see what becomes of it. `confirmed`: all is submitted, and replicated, before the kill."""
        stop = Event()
        self.durable.scheduler.prepare()
        worker = Started(partial(work, limit=20, within=ms(200), stop=stop), self.durable, self.body)
        try:
            report = self._run(confirmed)
        finally:
            stop.set()
            worker.result(60)
        return report

    def _run(self, confirmed: bool) -> Report:
        share = -(-self.workflows // SUBMITTERS)
        calls = [
            partial(self.submit, first, min(first + share, self.workflows))
            for first in range(0, self.workflows, share)
        ]
        submitting = Started(together, *calls)
        self._count(self.workflows if confirmed else self.workflows // 2)
        if confirmed:
            self.replicated()
        killed = time.monotonic()
        self.topology.kill_master()

        def promoted() -> bool:
            return self.topology.promoted()

        eventually(promoted, describing="a replica is promoted", within=60)
        submitting.result(60)
        assert len(self.acknowledged) == self.workflows
        kept = [one for one in self.acknowledged if "order" in self._recorded(one)]
        unfinished = self._wait(kept)
        finished = [one for one in kept if one not in set(unfinished)]
        counts = {one: int(self.client.get(self.counter(one)) or 0) for one in finished}
        return Report(
            workflows=self.workflows,
            finished=len(finished),
            lost=[one for one in self.acknowledged if one not in set(kept)],
            unfinished=unfinished,
            swept=self.swept,
            effects={one: count for one, count in counts.items() if count != 1},
            pause=min((at - killed for at in self.ends if at > killed + 0.2), default=float("inf")),
        )

    def _count(self, enough: int) -> None:
        def reached() -> bool:
            return len(self.acknowledged) >= enough

        eventually(reached, describing=f"{enough} are submitted", within=120)

    def _recorded(self, workflow: str) -> Any:
        return self.durable.checkpointer.load(workflow)

    def _wait(self, workflows: list[str]) -> list[str]:
        """Those that have not ended, with half a minute to go on and as long as any of them still does."""
        left, moved = list(workflows), time.monotonic()
        while left and time.monotonic() < moved + 30:
            sleep(0.1)
            before = len(left)
            left = [one for one in left if "finish" not in self._recorded(one)]
            if len(left) < before:
                moved = time.monotonic()
            elif time.monotonic() > moved + 8:
                self._sweep()
        return left

    def _sweep(self) -> None:
        """What workers do by themselves, every few minutes."""
        found = sweep(self.durable, settled=ms(3000))
        self.swept.update(found.woken, found.asleep)

    def close(self) -> None:
        """Close the clients."""
        leave(self.client)
        leave(self.submitting)


def failover(
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
        return load.run(confirmed=confirmed)
    finally:
        load.close()
