"""Queues and inboxes against models: random commands, and housekeeping disturbed between its calls."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from functools import partial
from itertools import chain
from typing import Any
from uuid import uuid4

import pytest
from durably.keys import cancelled_key
from durably.values import inbox_key
from durably_redis_async import (
    Blocked,
    Completed,
    Delivery,
    Entry,
    Fenced,
    MemoryScheduler,
    RedisSetScheduler,
    RedisStreamScheduler,
    Run,
    claimed,
    resume,
)
from durably_redis_async._client import send
from durably_redis_async.interfaces import Scheduler
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from redis.asyncio import Redis
from support import ms

REPRODUCIBLE = settings(
    derandomize=True, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)

START = datetime(2030, 1, 1, tzinfo=timezone.utc)
BRIEF = ms(1)
LEASE, EXTENSION = ms(2_500), ms(4_500)
"""The clock goes by whole seconds, so that no lease ends at the moment of a look."""

WORKFLOWS = ("a", "ü|:")
NEWCOMER = 2
"""The consumer that drains, after the two that took part."""

Command = tuple[Any, ...]


def seconds(n: int) -> timedelta:
    return timedelta(seconds=n)


@dataclass
class Clock:
    """A clock that stands still until it is told to go on."""

    moment: datetime = START

    def __call__(self) -> datetime:
        return self.moment


@dataclass(frozen=True)
class Handle:
    """What an answer must name to count: the receipt, and who holds it, where that matters."""

    holder: int | None
    receipt: str


@dataclass
class Held:
    workflow: str
    until: datetime


@dataclass
class Promises:
    """What every queue owes, told from the calls alone: one that was answered for too easily is not missed here."""

    calls: int = 0
    asked: dict[str, int] = field(default_factory=dict)
    taken: dict[Handle, int] = field(default_factory=dict)
    unseen: set[str] = field(default_factory=set)
    owed: set[str] = field(default_factory=set)

    def make_ready(self, workflow: str) -> None:
        self.calls += 1
        self.asked[workflow] = self.calls
        self.unseen.add(workflow)
        self.owed.add(workflow)

    def yielded(self, workflow: str, handle: Handle) -> None:
        assert workflow in self.asked, f"{workflow!r} was yielded, and not made ready since it was cancelled"
        self.calls += 1
        self.taken[handle] = self.calls
        self.unseen.discard(workflow)

    def done(self, workflow: str, handle: Handle) -> None:
        if self.taken[handle] > self.asked.get(workflow, 0):
            self.owed.discard(workflow)

    def cancel(self, workflow: str) -> None:
        self.asked.pop(workflow, None)
        self.unseen.discard(workflow)
        self.owed.discard(workflow)


@dataclass
class Books:
    """What a queue holds. `each`: every wakeup counts by itself; else those of a workflow collapse into the latest."""

    each: bool
    ready: Counter[str] = field(default_factory=Counter)
    out: dict[Handle, Held] = field(default_factory=dict)
    asleep: dict[str, datetime] = field(default_factory=dict)

    def forget(self, workflow: str) -> None:
        self.ready.pop(workflow, None)
        self.asleep.pop(workflow, None)
        for handle in [one for one, held in self.out.items() if held.workflow == workflow]:
            del self.out[handle]

    def make_ready(self, workflow: str) -> None:
        if not self.each:
            self.forget(workflow)
        self.ready[workflow] += 1

    def due(self, now: datetime) -> Counter[str]:
        return Counter(workflow for workflow, when in self.asleep.items() if when <= now)

    def wake_due(self, now: datetime) -> None:
        for workflow in self.due(now):
            del self.asleep[workflow]
            self.ready[workflow] += 1

    def visible(self, now: datetime) -> Counter[str]:
        """What `next_ready` gives, in some order."""
        if self.each:
            return +self.ready
        lapsed = Counter(held.workflow for held in self.out.values() if held.until < now)
        return +self.ready + self.due(now) + lapsed

    def everything(self) -> Counter[str]:
        """What comes when every deadline has passed and every consumer has died."""
        return +self.ready + Counter(list(self.asleep)) + Counter(held.workflow for held in self.out.values())

    def take(self, workflow: str, handle: Handle, now: datetime) -> None:
        assert self.visible(now)[workflow], f"{workflow!r} was yielded, and not owed: {self}"
        if self.each:
            self.ready[workflow] -= 1
        else:
            self.forget(workflow)
        self.out[handle] = Held(workflow, now + LEASE)

    def take_over(self, workflow: str, handle: Handle) -> None:
        """The delivery keeps its receipt, or it is the one that has been out longest."""
        candidates = [one for one, held in self.out.items() if held.workflow == workflow]
        assert candidates, f"{workflow!r} was taken over, and was not out: {self}"
        same = [one for one in candidates if one.receipt == handle.receipt]
        self.out[handle] = self.out.pop((same or candidates)[0])

    def extend(self, handle: Handle, renamed: Handle, until: datetime) -> None:
        if self.each or handle not in self.out:
            assert renamed == handle
        else:
            assert renamed not in self.out
            self.out[renamed] = Held(self.out.pop(handle).workflow, until)

    def answer(self, handle: Handle, when: datetime | None = None) -> None:
        held = self.out.pop(handle, None)
        if held is not None and when is not None:
            self.asleep[held.workflow] = min(when, self.asleep.get(held.workflow, when))


@dataclass
class Drive:
    """Gives commands to a queue's consumers, and compares what they say with the books.

    `nudge` is called while a reader waits: an idle server is slow to see that a short wait is over. `personal`: only
    the consumer that took a delivery can answer for it.
    """

    consumers: Sequence[Scheduler]
    clock: Clock
    nudge: Callable[[], Awaitable[object]]
    each: bool
    personal: bool
    books: Books = field(init=False)
    promises: Promises = field(default_factory=Promises, init=False)
    taken: list[tuple[int, Delivery]] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self.books = Books(self.each)

    def handle(self, who: int, delivery: Delivery) -> Handle:
        return Handle(who if self.personal else None, delivery.receipt)

    async def run(self, commands: Sequence[Command]) -> None:
        for command in commands:
            await self.do(*command)

    async def do(self, name: str, *details: Any) -> None:
        if name in ("done", "wake_at", "extend", "holding"):
            back, foreign, *rest = details
            if self.taken:
                who, delivery = self.taken[-1 - back % len(self.taken)]
                await getattr(self, name)(1 - who % 2 if foreign else who, delivery, *rest)
        else:
            await getattr(self, name)(*details)

    async def make_ready(self, who: int, workflow: str) -> None:
        await self.consumers[who].make_ready(workflow)
        self.books.make_ready(workflow)
        self.promises.make_ready(workflow)

    async def next_ready(self, who: int) -> Delivery | None:
        looking = asyncio.ensure_future(self.consumers[who].next_ready(BRIEF))
        while not looking.done():
            await self.nudge()
        delivery = await looking
        if delivery is None:
            assert not self.books.visible(self.clock()), f"nothing was yielded: {self.books}"
            return None
        self.books.take(delivery.workflow, self.handle(who, delivery), self.clock())
        return self._took(who, delivery)

    async def take_now(self, who: int, most: int = 2) -> None:
        consumer = self.consumers[who]
        if isinstance(consumer, MemoryScheduler):
            return
        assert isinstance(consumer, (RedisStreamScheduler, RedisSetScheduler))
        visible = self.books.visible(self.clock()).total()
        taken = await consumer.take_now(most)
        assert len(taken) == min(visible, most), f"{taken} of {self.books}"
        for delivery in taken:
            self.books.take(delivery.workflow, self.handle(who, delivery), self.clock())
            self._took(who, delivery)

    async def reclaim(self, who: int) -> Delivery | None:
        consumer = self.consumers[who]
        delivery = await consumer.reclaim(timedelta(0)) or await consumer.reclaim(timedelta(0))
        if delivery is None:
            assert not self.each or not self.books.out, f"nothing was taken over: {self.books}"
            return None
        assert self.each, "a queue whose deliveries show up by themselves has nothing to take over"
        self.books.take_over(delivery.workflow, self.handle(who, delivery))
        return self._took(who, delivery)

    def _took(self, who: int, delivery: Delivery) -> Delivery:
        self.promises.yielded(delivery.workflow, self.handle(who, delivery))
        self.taken.append((who, delivery))
        return delivery

    async def wake_due(self, who: int) -> None:
        woken = await self.consumers[who].wake_due(self.clock())
        if self.each:
            assert Counter(woken) == self.books.due(self.clock())
            self.books.wake_due(self.clock())
        else:
            assert woken == ()

    async def cancel(self, who: int, workflow: str) -> None:
        await self.consumers[who].cancel(workflow)
        self.books.forget(workflow)
        self.promises.cancel(workflow)

    async def done(self, who: int, delivery: Delivery) -> None:
        handle = self.handle(who, delivery)
        await self.consumers[who].done(delivery)
        self.books.answer(handle)
        if handle in self.promises.taken:
            self.promises.done(delivery.workflow, handle)

    async def wake_at(self, who: int, delivery: Delivery, after: int) -> None:
        when = self.clock() + seconds(after)
        await self.consumers[who].wake_at(delivery, when)
        self.books.answer(self.handle(who, delivery), when)

    async def extend(self, who: int, delivery: Delivery) -> None:
        now = await self.consumers[who].extend(delivery, EXTENSION)
        assert now.workflow == delivery.workflow
        handle, renamed = self.handle(who, delivery), self.handle(who, now)
        self.books.extend(handle, renamed, self.clock() + EXTENSION)
        if now != delivery:
            self.promises.taken[renamed] = self.promises.taken[handle]
            self.taken.append((who, now))

    async def advance(self, by: int) -> None:
        self.clock.moment += seconds(by)

    async def trim(self, who: int) -> None:
        consumer = self.consumers[who]
        if isinstance(consumer, RedisStreamScheduler):
            await consumer.trim()

    async def drain(self) -> None:
        """Check what is still owed: what is owed now, at each deadline, and once every consumer has died."""
        unseen, owed = set(self.promises.unseen), set(self.promises.owed)
        found = await self._drained()
        assert unseen <= found.keys(), f"made ready, and not seen: {unseen - found.keys()}"
        while self.books.asleep:
            self.clock.moment = max(self.clock(), min(self.books.asleep.values()))
            found += await self._drained()
        self.clock.moment += timedelta(days=1)
        while (delivery := await self.reclaim(NEWCOMER)) is not None:
            found[delivery.workflow] += 1
            await self.done(NEWCOMER, delivery)
        found += await self._drained()  # which leaves out what was found no time
        assert owed <= found.keys(), f"made ready, and not answered for since: {owed - found.keys()}"
        assert not self.books.visible(self.clock()) and not self.books.out

    async def _drained(self) -> Counter[str]:
        await self.wake_due(NEWCOMER)
        expected, found = self.books.visible(self.clock()), Counter[str]()
        while (delivery := await self.next_ready(NEWCOMER)) is not None:
            found[delivery.workflow] += 1
            await self.done(NEWCOMER, delivery)
        assert +found == expected
        return +found


async def driven(kind: str, redis: Redis) -> Drive:
    """A drive over a fresh queue of this kind."""
    clock, namespace = Clock(), f"t{uuid4().hex[:12]}"
    consumers: list[Any]
    if kind == "memory":
        consumers = [MemoryScheduler(LEASE, clock)] * 3
    elif kind == "stream":
        consumers = [
            RedisStreamScheduler(redis, namespace, batch=1, consumer=f"c{n}", scan=3) for n in range(3)
        ]
    else:
        consumers = [RedisSetScheduler(redis, namespace, LEASE, BRIEF, clock) for _ in range(3)]
    await consumers[0].prepare()
    nudge = redis.ping if kind == "stream" else partial(asyncio.sleep, 0)
    return Drive(consumers, clock, nudge, each=kind != "set", personal=kind == "stream")


def command(name: str, *details: st.SearchStrategy[Any]) -> st.SearchStrategy[Command]:
    return st.tuples(st.just(name), *details)


def weighted(*choices: tuple[int, st.SearchStrategy[Command]]) -> st.SearchStrategy[Command]:
    return st.sampled_from([one for weight, one in choices for _ in range(weight)]).flatmap(lambda one: one)


def many(one: st.SearchStrategy[Command]) -> st.SearchStrategy[list[Command]]:
    """Some two dozen: a list alone is a handful, seldom more."""
    return st.lists(st.lists(one, max_size=12), max_size=12).map(lambda parts: list(chain(*parts)))


who = st.integers(0, 1)
workflow = st.sampled_from(WORKFLOWS)
answered = (st.integers(0, 4), st.sampled_from((False, False, False, True)))
commands = weighted(
    (4, command("make_ready", who, workflow)),
    (5, command("next_ready", who)),
    (2, command("take_now", who)),
    (2, command("reclaim", who)),
    (3, command("wake_at", *answered, st.sampled_from((-3, 0, 1, 4, 3600)))),
    (2, command("done", *answered)),
    (2, command("extend", *answered)),
    (1, command("wake_due", who)),
    (2, command("advance", st.sampled_from((1, 3, 5)))),
    (1, command("cancel", who, workflow)),
    (1, command("trim", who)),
)


WOKEN_AFTER_THE_LEASE: list[Command] = [
    ("make_ready", 0, "a"),
    ("next_ready", 0),
    ("advance", 3),
    ("make_ready", 0, "a"),
    ("done", 0, False),
]
ANSWERED_PAST_THE_CURSOR: list[Command] = [
    *[("make_ready", 0, "a")] * 2,
    *[("next_ready", 0)] * 2,
    ("reclaim", 0),
    ("done", 1, False),
    ("reclaim", 0),
]


@pytest.mark.parametrize("kind", ["memory", "stream", "set"])
@settings(REPRODUCIBLE, max_examples=150)
@given(acts=many(commands))
@example(acts=WOKEN_AFTER_THE_LEASE)
@example(acts=ANSWERED_PAST_THE_CURSOR)
async def test_a_queue_yields_what_it_owes_and_nothing_else(
    redis: Redis, kind: str, acts: list[Command]
) -> None:
    drive = await driven(kind, redis)
    await drive.run(acts)
    await drive.drain()


class Stepped(Redis):
    """A client whose every command waits for its turn."""

    def __init__(self, other: Redis) -> None:
        super().__init__(connection_pool=other.connection_pool)
        self.turn = asyncio.Semaphore(0)
        self.news: asyncio.Queue[bool] = asyncio.Queue()

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        self.news.put_nowait(True)
        await self.turn.acquire()
        send: Any = super().execute_command
        return await send(*args, **options)


@dataclass
class Trimming:
    """Housekeeping that goes on by one command at a time."""

    client: Stepped
    running: asyncio.Task[int]

    @staticmethod
    async def begun(redis: Redis, namespace: str, scan: int) -> Trimming:
        """One that is about to send its first command."""
        client = Stepped(redis)
        scheduler = RedisStreamScheduler(client, namespace, scan=scan)
        for script in (scheduler.sweeper, scheduler.trimmer, scheduler.unmarker):
            await redis.script_load(script.source)

        async def trim() -> int:
            try:
                return await scheduler.trim()
            finally:
                client.news.put_nowait(False)

        begun = Trimming(client, asyncio.create_task(trim()))
        assert await client.news.get()
        return begun

    async def step(self) -> bool:
        """Send the next command; whether there are more."""
        self.client.turn.release()
        more = await self.client.news.get()
        if not more:
            await self.running
        return more

    async def die(self) -> None:
        self.running.cancel()
        await asyncio.wait([self.running])


@dataclass
class CancelDrive(Drive):
    """A stream's drive whose cancellations leave marks, with housekeeping that others come in between of.

    What is cancelled is never seen again, whoever reads in whichever way, housekeeping under way or not.
    """

    redis: Redis
    under_way: dict[int, Trimming] = field(default_factory=dict, init=False)

    @property
    def stream(self) -> RedisStreamScheduler:
        first = self.consumers[0]
        assert isinstance(first, RedisStreamScheduler)
        return first

    async def _stands(self, who: int, delivery: Delivery) -> bool:
        consumer = self.consumers[who]
        assert isinstance(consumer, RedisStreamScheduler)
        return bool(await send(consumer.holding(delivery)))

    async def holding(self, who: int, delivery: Delivery) -> None:
        """Whether it stands is whether it is out."""
        assert await self._stands(who, delivery) == (self.handle(who, delivery) in self.books.out)

    async def pull(self, who: int) -> None:
        """As the worker does: read, and ask of each whether it stands."""
        consumer = self.consumers[who]
        assert isinstance(consumer, RedisStreamScheduler)
        looking = asyncio.ensure_future(consumer.next_several(BRIEF, 2, False))
        while not looking.done():
            await self.nudge()
        for delivery in await looking:
            if await self._stands(who, delivery):
                self.books.take(delivery.workflow, self.handle(who, delivery), self.clock())
                self._took(who, delivery)

    async def step(self, housekeeper: int, times: int = 1) -> None:
        """Go on with this housekeeper's round, or begin one."""
        one = self.under_way.get(housekeeper)
        if one is None:
            one = self.under_way[housekeeper] = await Trimming.begun(
                self.redis, self.stream.namespace, 1 + housekeeper
            )
        for _ in range(times):
            if not await one.step():
                del self.under_way[housekeeper]
                return

    async def die(self, housekeeper: int) -> None:
        if housekeeper in self.under_way:
            await self.under_way.pop(housekeeper).die()

    async def finish(self) -> None:
        """Let every round come to its end."""
        for housekeeper in list(self.under_way):
            while housekeeper in self.under_way:
                await self.step(housekeeper)

    async def clean(self) -> None:
        """When all was answered for, housekeeping leaves nothing of it."""
        await self.stream.trim()
        assert await self.redis.xlen(self.stream.ready_key) == 0
        assert not await self.redis.exists(cancelled_key(self.stream.namespace)), "marks stay"

    async def abandon(self) -> None:
        for housekeeper in list(self.under_way):
            await self.die(housekeeper)


async def cancelling(redis: Redis, scans: Sequence[int] = (1, 4, 2)) -> CancelDrive:
    """A drive over a fresh stream, whose consumers call different lengths short."""
    plain = await driven("stream", redis)
    for consumer, scan in zip(plain.consumers, scans, strict=True):
        assert isinstance(consumer, RedisStreamScheduler)
        consumer.scan = scan
    return CancelDrive(plain.consumers, plain.clock, plain.nudge, each=True, personal=True, redis=redis)


housekeeper = st.integers(0, 1)
disturbed = weighted(
    (6, command("step", housekeeper, st.integers(1, 3))),
    (1, command("die", housekeeper)),
    (3, command("cancel", who, workflow)),
    (2, command("pull", who)),
    (2, command("holding", *answered)),
    (16, commands),
)


@settings(REPRODUCIBLE, max_examples=150)
@given(acts=many(disturbed))
async def test_what_is_cancelled_stays_cancelled_whoever_comes_in_between(
    redis: Redis, acts: list[Command]
) -> None:
    drive = await cancelling(redis)
    try:
        await drive.run(acts)
        await drive.finish()
        await drive.drain()
        await drive.clean()
    finally:
        await drive.abandon()


NEWEST, OLDER, OLDEST = ((back, False) for back in range(3))
PAST = -3
BEFORE: list[Command] = [
    ("make_ready", 0, "a"),
    ("make_ready", 0, "a"),
    ("make_ready", 0, "ü|:"),
    ("make_ready", 0, "a"),
    ("next_ready", 0),
    ("next_ready", 1),
    ("next_ready", 0),
    ("wake_at", *OLDEST, PAST),
    ("make_ready", 0, "a"),
    ("make_ready", 0, "ü|:"),
    ("make_ready", 0, "a"),
]
"""`a` sleeps and is due, is out (at consumer 1), and is queued three times; `ü|:` is out, and is queued."""

MEANWHILE: dict[str, list[Command]] = {
    "wake_due": [("wake_due", 0)],
    "wake_at": [("wake_at", *OLDER, PAST)],
    "wake_at, wake_due": [("wake_at", *OLDER, PAST), ("wake_due", 0)],
    "make_ready": [("make_ready", 0, "a")],
    "make_ready and sleep": [
        ("make_ready", 0, "a"),
        *[("next_ready", 1)] * 5,
        ("wake_at", *NEWEST, 3600),
    ],
    "reclaim": [("reclaim", 0)],
    "reclaim, wake_at, wake_due": [
        *[("reclaim", 0)] * 2,
        ("wake_at", *NEWEST, PAST),
        ("wake_at", *OLDER, PAST),
        ("wake_due", 1),
    ],
    "next_ready, wake_at, wake_due": [("next_ready", 0), ("wake_at", *NEWEST, PAST), ("wake_due", 1)],
    "pull, holding": [("pull", 0), ("pull", 1), ("holding", *NEWEST), ("holding", *OLDER)],
    "take_now": [("take_now", 1), ("wake_at", *NEWEST, PAST)],
    "extend": [("extend", *OLDER)],
    "done": [("done", *OLDER)],
    "trim": [("trim", 0)],
    "trim, make_ready": [("trim", 0), ("make_ready", 0, "a"), ("trim", 1)],
    "cancel": [("cancel", 0, "a")],
    "cancel, make_ready": [("cancel", 0, "a"), ("make_ready", 0, "a")],
    "make_ready, cancel": [("make_ready", 0, "a"), ("cancel", 0, "a")],
    "make_ready, short cancel": [("make_ready", 0, "a"), ("next_ready", 1), ("cancel", 1, "a")],
    "cancel another": [("cancel", 0, "ü|:")],
    "make_ready, and a second round that overtakes": [
        ("make_ready", 0, "a"),
        ("cancel", 0, "a"),
        ("make_ready", 0, "a"),
        ("step", 1, 100),
        ("next_ready", 1),
        ("wake_at", *NEWEST, PAST),
        ("wake_due", 0),
    ],
    "death": [("die", 0)],
    "death, another": [("die", 0), ("step", 1, 100)],
    "death, make_ready": [("die", 0), ("make_ready", 0, "a"), ("wake_at", *OLDER, PAST)],
}


@pytest.mark.parametrize("meanwhile", MEANWHILE)
async def test_housekeeping_after_a_cancellation_is_disturbed_before_its_every_command(
    redis: Redis, meanwhile: str
) -> None:
    sent = 0
    over = False
    while not over:
        drive = await cancelling(redis)
        try:
            await drive.run([*BEFORE, ("cancel", 0, "a"), ("step", 0, sent)])
            over = not drive.under_way
            await drive.run(MEANWHILE[meanwhile])
            await drive.finish()
            await drive.drain()
            await drive.clean()
        finally:
            await drive.abandon()
        sent += 1
    assert sent > 8, "it reads several pages, trims, and takes a mark off"


class Died(Exception):
    """The process is gone."""


@dataclass(frozen=True)
class Read:
    """One read of the inbox. `after`: the number of a message, -1 for the start, `None` to follow the last such one."""

    waits: bool
    after: int | None
    limit: int | None


@dataclass(frozen=True)
class Turn:
    """A pass. How many messages come before it, before each of its reads, and what happens before which read."""

    before: int
    between: int
    fate: str
    at: int


@dataclass
class Inbox:
    """A workflow that reads its inbox, and what each of its reads was told."""

    checkpointer: Any
    workflow: str
    reads: list[Read]
    filed: list[Entry[object]] = field(default_factory=list)
    told: dict[int, tuple[Entry[object], ...]] = field(default_factory=dict)

    async def append(self, times: int) -> None:
        for _ in range(times):
            entry = await self.checkpointer.append(self.workflow, len(self.filed))
            assert not self.filed or entry.key > self.filed[-1].key
            self.filed.append(entry)

    def check(self, n: int, past: str | None, known: int, told: tuple[Entry[object], ...]) -> None:
        """The first answer is what there is, in order, without a gap: at least what was there as the pass began."""
        read = self.reads[n]
        there = [one for one in self.filed if past is None or one.key > past][: read.limit]
        surely = [one for one in self.filed[:known] if past is None or one.key > past][: read.limit]
        assert list(told) == there[: len(told)] and len(told) >= len(surely)
        assert told or not read.waits

    async def take(self, turn: Turn, *, overtaking: bool = False) -> object:
        """One pass. What it came to."""
        await self.append(turn.before)
        known = len(self.filed)
        overtaken = False

        async def body(run: Run) -> list[Entry[object]]:
            nonlocal overtaken
            followed: list[Entry[object]] = []
            for n, read in enumerate(self.reads):
                await self.append(turn.between)
                if n == turn.at and turn.fate == "dies":
                    raise Died
                if n == turn.at and turn.fate == "is overtaken" and not overtaking:
                    await self.checkpointer.release(run.holder)
                    await self.take(Turn(1, 0, "ends", 0), overtaking=True)
                    overtaken = True
                past = None if read.after == -1 else inbox_key(read.after) if read.after is not None else None
                if read.after is None and followed:
                    past = followed[-1].key
                call = run.receive if read.waits else run.pending
                told = await call(f"read {n}", after=past, limit=read.limit)
                if n not in self.told:
                    assert not overtaken, "a pass that lost its workflow recorded a read"
                    self.check(n, past, known, told)
                assert self.told.setdefault(n, told) == told, "another answer on replay"
                if read.after is None:
                    followed += told
            return followed

        holder = await claimed(self.checkpointer, self.workflow)
        try:
            outcome = await resume(holder, self.checkpointer, body)
        except Died:
            return None
        except Fenced:
            assert overtaken
            return None
        finally:
            await self.checkpointer.release(holder)
        if isinstance(outcome, Completed):
            assert outcome.value == self.filed[: len(outcome.value)], "lost, twice, or out of order"
        elif not overtaken:
            assert isinstance(outcome, Blocked) and not outcome.waiting
            assert outcome.listening == (f"read {len(self.told)}",) and self.reads[len(self.told)].waits
        return outcome


reads = st.builds(
    Read,
    waits=st.booleans(),
    after=st.sampled_from((None, None, None, -1, 0, 2, 5)),
    limit=st.sampled_from((None, None, 1, 2, 3)),
)
turns = st.builds(
    Turn,
    before=st.integers(0, 3),
    between=st.sampled_from((0, 0, 1)),
    fate=st.sampled_from(("ends", "ends", "dies", "is overtaken")),
    at=st.integers(0, 4),
)


@settings(REPRODUCIBLE, max_examples=100)
@given(plan=st.lists(reads, min_size=1, max_size=5), passes=st.lists(turns, max_size=6))
async def test_an_inbox_is_read_without_a_gap_and_the_same_on_replay(
    checkpointer: Any, plan: list[Read], passes: list[Turn]
) -> None:
    inbox = Inbox(checkpointer, uuid4().hex, plan)
    for turn in passes:
        await inbox.take(turn)
    for _ in plan:
        await inbox.take(Turn(8, 0, "ends", 0))
    first = await inbox.take(Turn(1, 0, "ends", 0))
    assert isinstance(first, Completed) and len(inbox.told) == len(plan)
    assert await inbox.take(Turn(3, 0, "ends", 0)) == first
