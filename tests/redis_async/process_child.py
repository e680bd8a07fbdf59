"""A worker process for `test_processes.py`. Its settings are one JSON argument; the test talks to it through keys.

Workflows are named after the write at which a process with a `signal` sends that signal to itself, once: right before
the script is sent, or (`transacted`) when it has run and its answer is not yet used. Others linger in a step.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from durably_redis_async import (
    Delivery,
    Fenced,
    LuaEffect,
    RedisCheckpointer,
    RedisSetScheduler,
    RedisStreamScheduler,
    Run,
    SplitDurable,
    now_utc,
    work,
)
from redis.asyncio import Redis
from redis.exceptions import NoScriptError, ResponseError

LEASE = timedelta(milliseconds=600)
LONG = timedelta(minutes=10)
COUNT = "redis.call('INCR', KEYS[1]) return cjson.encode(ARGV[1])"
STEP_OF = {"record": "b", "transact": "c", "transacted": "c"}
"""At which step a process is signalled, where its workflow's name is a write that comes more than once."""


class Watched(Redis):
    """A client that lets the process look at commands before and after they are sent, also those of a pipeline."""

    around: Callable[[list[tuple[Any, ...]], Callable[[], Awaitable[list[Any]]]], Awaitable[list[Any]]]

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        async def send() -> list[Any]:
            return [await super(Watched, self).execute_command(*args, **options)]  # type: ignore[no-untyped-call]

        (answer,) = await self.around([args], send)
        return answer

    def pipeline(self, *args: Any, **options: Any) -> Any:
        made: Any = super().pipeline(*args, **options)
        execute = made.execute

        async def watched(**how: Any) -> list[Any]:
            return await self.around([command for command, _ in made.command_stack], lambda: execute(**how))

        made.execute = watched
        return made


@dataclass
class Process:
    """One process: `name` is what its steps return, `at` the signal that it sends itself, or 0."""

    url: str
    namespace: str
    scheduler: str
    name: str
    limit: int
    at: int
    signalled: bool = False
    current: str = ""
    deliveries: dict[str, Delivery] = field(default_factory=dict)
    telling: set[asyncio.Future[Any]] = field(default_factory=set)

    def key(self, *parts: str) -> str:
        """A key that the test and its processes share."""
        return ":".join((self.namespace, "test", *parts))

    async def main(self) -> None:
        """Work until SIGTERM."""
        self.side = Redis.from_url(self.url, decode_responses=True)
        client = Watched.from_url(self.url, decode_responses=True)
        assert isinstance(client, Watched)
        client.around = self.around
        self.store = RedisCheckpointer(client, self.namespace)
        self.queue: Any
        if self.scheduler == "stream":
            own = f"{self.name}-{os.getpid()}"
            self.queue = RedisStreamScheduler(client, self.namespace, consumer=own, lease=LEASE)
            hold, finish = self.queue.hold, self.queue.answer
        else:
            self.queue = RedisSetScheduler(
                client, self.namespace, lease=LEASE, poll=timedelta(milliseconds=10)
            )
            hold, finish = self.queue.keep, self.queue.finish
        self.names = {
            self.store.write.sha: "record",
            self.store.transaction(COUNT).sha: "transact",
            self.store.stretch.sha: "extend",
            self.store.still_here.sha: "renew",
            self.store.hand_back.sha: "release",
            hold.sha: "hold",
            finish.sha: "finish",
            self.queue.suspend.sha: "suspend",
        }
        for pull in ("reclaim", "next_several"):
            setattr(self.queue, pull, self.pulling(getattr(self.queue, pull)))
        self.queue.extension = self.noting(self.queue.extension)
        await work(
            SplitDurable(self.store, self.queue),
            self.body,
            tick=timedelta(milliseconds=10),
            within=timedelta(milliseconds=50),
            contended=timedelta(milliseconds=50),
            limit=self.limit,
        )
        await client.aclose()
        await self.side.aclose()

    async def body(self, run: Run) -> None:
        """Every kind of write; the second process, and everybody late, waits for the test before the finish."""
        self.current = run.workflow
        await run.step("a", self.effect(run, "a"), str)
        await run.step("b", self.effect(run, "b"), str)
        await run.transact("c", self.counting(run, "c"), str)
        await run.step("d", self.effect(run, "d"), str, within=LONG)
        if run.workflow == "suspend":
            await run.sleep("nap", timedelta(milliseconds=100))
        if self.name == "second" or run.workflow.startswith("later"):
            await self.side.sadd(self.key("at", run.workflow), os.getpid())
            await self.until(lambda: self.side.exists(self.key("open", run.workflow)))
        await run.transact("e", self.counting(run, "e"), str)
        await self.side.rpush(self.key("ends", run.workflow), self.name)

    def counting(self, run: Run, step: str) -> LuaEffect:
        """An effect inside the server that counts itself."""
        return LuaEffect(COUNT, (f"{self.namespace}:test:{{{run.workflow}}}:{step}",), (self.name,))

    def effect(self, run: Run, step: str) -> Callable[[], Awaitable[str]]:
        """An effect outside that counts itself. The first process does not come to an end with `d` in some."""

        async def effect() -> str:
            await self.side.incr(f"{self.namespace}:test:{{{run.workflow}}}:{step}")
            lingers = run.workflow.startswith("here") or run.workflow == "renew"
            if step == "d" and self.name == "first" and lingers:
                await self.side.sadd(self.key("at", run.workflow), os.getpid())
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    insisting = asyncio.ensure_future(self.insist(run))
                    while not insisting.done():
                        with contextlib.suppress(asyncio.CancelledError):
                            await asyncio.shield(insisting)
                    insisting.result()
            return self.name

        return effect

    async def insist(self, run: Run) -> None:
        """Make every write past all that the worker knows, as if it knew nothing."""
        holder, delivery = run.holder, self.deliveries[run.workflow]
        with contextlib.suppress(Fenced):
            await self.store.record(holder, "late", self.name)
        with contextlib.suppress(Fenced):
            await self.store.transact(holder, "late too", self.counting(run, "late"))
        await self.store.renew(holder, LONG)
        await self.store.extend(holder, LONG, LONG)
        await self.queue.extend(delivery, LONG)
        await self.queue.wake_at(delivery, now_utc())
        await self.queue.done(delivery)

    def pulling(self, call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        """Pull nothing while the test holds processes of this name, and know each delivery that is pulled."""

        async def pull(*args: Any) -> Any:
            if await self.side.exists(self.key("held", self.name)):
                await self.side.sadd(self.key("idle", self.name), os.getpid())
                await self.until(lambda: self.side.exists(self.key("held", self.name)), met=False)
            pulled = await call(*args)
            for delivery in pulled if isinstance(pulled, list) else [pulled]:
                if delivery is not None:
                    self.deliveries[delivery.workflow] = delivery
            return pulled

        return pull

    def noting(self, extension: Callable[..., Any]) -> Callable[..., Any]:
        """Know each delivery under the name that its extension has given it."""

        def noted(*args: Any) -> Any:
            call = extension(*args)

            def answer(reply: Any) -> Any:
                delivery = call.answer(reply)
                self.deliveries[delivery.workflow] = delivery
                return delivery

            return replace(call, answer=answer)

        return noted

    async def until(self, look: Callable[[], Awaitable[Any]], *, met: bool = True) -> None:
        """Wait until `look` sees something, or (`met=False`) nothing any more."""
        while bool(await look()) is not met:
            await asyncio.sleep(0.01)

    async def around(
        self, commands: list[tuple[Any, ...]], send: Callable[[], Awaitable[list[Any]]]
    ) -> list[Any]:
        """Send commands, and say of each write when it was sent and whether it was refused."""
        writes = [self.write(*command) for command in commands]
        for name, step in writes:
            self.signal_at(name, step)
        if not any(name for name, _ in writes):
            return await send()
        # a pass that is found lost is cancelled, perhaps while its write is under way: that write is told of all the same
        told = asyncio.ensure_future(self.told(writes, send))
        self.telling.add(told)
        told.add_done_callback(self.telling.discard)
        return await asyncio.shield(told)

    async def told(
        self, writes: list[tuple[str, str]], send: Callable[[], Awaitable[list[Any]]]
    ) -> list[Any]:
        """Send writes, and say of each when it was sent and whether it was refused."""
        sent = time.monotonic()
        try:
            answers = await send()
        except ResponseError as error:
            await self.say(writes, [error], sent)
            raise
        for name, step in writes:
            if name == "transact":
                self.signal_at("transacted", step)
        await self.say(writes, answers, sent)
        return answers

    def write(self, command: str, script: object = "", count: object = 0, *rest: object) -> tuple[str, str]:
        """Which write a command is, and of which step; nothing for one that is none."""
        if command not in ("EVALSHA", "EVAL"):
            return "", ""
        sha = str(script)
        if command == "EVAL":
            sha = hashlib.sha1(sha.encode(), usedforsecurity=False).hexdigest()
        name = self.names.get(sha, "")
        return name, str(rest[int(str(count))]) if name else ""

    def signal_at(self, point: str, step: str) -> None:
        """Send this process its signal if this is the point."""
        if not self.at or self.signalled or not point or point != self.current:
            return
        if STEP_OF.get(point, step) == step:
            self.signalled = True
            os.kill(os.getpid(), self.at)

    async def say(self, writes: list[tuple[str, str]], answers: list[Any], sent: float) -> None:
        """Tell the test what the first process's writes were answered. A record that wins is answered with nothing."""
        for (name, _), answer in zip(writes, answers, strict=True):
            if self.name != "first" or not name or isinstance(answer, NoScriptError):
                continue
            refused = not answer and name not in ("record", "transact")
            if isinstance(answer, Exception):
                refused = str(answer).startswith("FENCED ")
            await self.side.rpush(self.key("said"), json.dumps([self.current, name, refused, sent]))


if __name__ == "__main__":
    asyncio.run(Process(**json.loads(sys.argv[1])).main())
