# Generated from packages/redis_async/src/durably_redis_async/run.py by twin.py. Edit that file.
"""What a body works with: named steps, each recorded once, and waits. See `docs/guarantees.md` for what they promise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeVar, overload

from durably.durability import Durability
from durably.durations import check_duration
from durably.keys import check_key
from durably.parsing import check_reading, deadline, messages, parsed, plain
from durably.signals import Fenced, InputNeeded, MessageNeeded, ScheduledWakeup, Suspended
from durably.typed import parser
from durably.values import INPUT, Entry, Pass, Recorded, now_utc

from durably_redis_sync._concurrency import Guard, Returning, called, shielded
from durably_redis_sync._gathering import kept
from durably_redis_sync.extending import Extend
from durably_redis_sync.interfaces import Checkpointer, Durable
from durably_redis_sync.outbox import Outbox
from durably_redis_sync.proving import Proven, asked, option, prepared

T = TypeVar("T")
S = TypeVar("S", bound=Suspended)
Then = Callable[[object], None]

Parse = Callable[[object], T] | type[T]
"""Makes a step's type true: a type that the recorded value is converted to and checked against, or a function that
takes the recorded value and returns a `T` or raises."""


@dataclass(eq=False)
class Run(Outbox):
    """One pass over a workflow's body. Made by `resume` and the worker; a body only calls its methods.

    A name may be used once per pass, and names in `inbox:` are the store's.
    """

    holder: Pass
    checkpointer: Checkpointer[Any]
    recorded: dict[str, object]
    extend: Extend
    now: Callable[[], datetime] = now_utc
    reached: list[Suspended] = field(default_factory=list, init=False, repr=False)
    lost: bool = field(default=False, init=False, repr=False)
    ended: bool = field(default=False, init=False, repr=False)
    durable: Durable[Any] | None = field(default=None, kw_only=True, repr=False)
    writing: int = field(default=0, init=False, repr=False)
    _used: set[str] = field(default_factory=set, init=False, repr=False)
    _proven: Proven = field(default_factory=Proven, init=False, repr=False)
    _guard: Guard = field(default_factory=Guard, init=False, repr=False)
    _kept: Any = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._kept = kept if getattr(self.checkpointer, "gathers", False) else shielded

    @property
    def workflow(self) -> str:
        """The workflow's id."""
        return self.holder.workflow

    def step(
        self,
        key: str,
        effect: Returning[[], object],
        parse: Parse[T],
        *,
        within: timedelta | None = None,
        durability: Durability | None = None,
    ) -> T:
        """Run `effect` and record what it returns, unless `key` is recorded; either way hand it back through `parse`.

        The effect runs at least once: a process that dies between the effect and its record leaves no record. Once
        the effect has returned, the record is written even if this call is cancelled meanwhile. `within` is how long
        the step may take where that is more than the pass's budget. `durability`: what the record must have reached
        before it is handed back (unset: the store's). Raises `Fenced` if the pass has lost its workflow, `Unencodable`
        if the codec cannot carry the result, `NotDurable`, and what effect and parse raise.
        """
        self._use(key)
        typed = parser(parse)
        made: T = self._parsed(key, typed, self._perform(key, effect, within, typed, durability))
        return made

    def transact(
        self,
        key: str,
        effect: object,
        parse: Parse[T],
        *,
        within: timedelta | None = None,
        durability: Durability | None = None,
    ) -> T:
        """Run `effect` inside the store, in one step with its record: at most once over all passes.

        For Redis it is a `LuaEffect`. Raises `Fenced`, `EffectTorn`, `NotDurable`, and the effect's own error.
        """
        self._use(key)
        typed = parser(parse)
        if self._has(key):
            replayed: T = self._parsed(key, typed, self._proven.handed(self, key, durability))
            return replayed
        self._check_holding()
        prepared(self.checkpointer, durability)
        self._cover(within)

        write = partial(self.checkpointer.transact, self.holder, key, effect, **option(durability))
        self._begin(checked=True)
        made: T = self._parsed(key, typed, self._kept(self._write, key, write))
        return made

    def sleep(self, key: str, duration: timedelta) -> None:
        """Wait for `duration`, counted from the first time a pass came here: the deadline is recorded."""
        check_duration("a sleep", duration)
        self._use(key)
        if self._has(key):
            due = deadline(key, self.recorded[key])
            if self.now() < due:
                raise self._note(ScheduledWakeup(key, due))
            self._proven.handed(self, key)
            return
        reached: list[ScheduledWakeup] = []

        def note(recorded: object) -> None:
            due = deadline(key, recorded)
            if self.now() < due:
                reached.append(self._note(ScheduledWakeup(key, due)))

        self._begin(checked=True)
        self._record(key, (self.now() + duration).isoformat(), note)
        if reached:
            raise reached[0]

    def input(self, parse: Parse[T]) -> T:
        """What the workflow was started with (`durable.start`); waits for it as long as it takes."""
        return self.awaiting(INPUT, parse)

    def awaiting(self, key: str, parse: Parse[T]) -> T:
        """The value that somebody supplies under `key` (with `arrive`); waits for it as long as it takes."""
        self._use(key)
        if not self._has(key):
            self._check_holding()
            raise self._note(InputNeeded(key))
        made: T = self._parsed(key, parser(parse), self._proven.handed(self, key))
        return made

    @overload
    def receive(
        self, key: str, *, after: str | None = None, limit: int | None = None
    ) -> tuple[Entry[object], ...]: ...

    @overload
    def receive(
        self, key: str, *, after: str | None = None, limit: int | None = None, type: Parse[T]
    ) -> tuple[Entry[T], ...]: ...

    def receive(
        self, key: str, *, after: str | None = None, limit: int | None = None, type: Any = None
    ) -> tuple[Entry[Any], ...]:
        """The inbox's messages past the key `after`, at most `limit`, at least one: waits for it as long as it takes.

        Which messages were taken is a recorded step, so a replay sees the same ones. `type`: what each message is
        converted to.
        """
        return self._converted(self._read(key, after, limit, waits=True), type)

    @overload
    def pending(
        self, key: str, *, after: str | None = None, limit: int | None = None
    ) -> tuple[Entry[object], ...]: ...

    @overload
    def pending(
        self, key: str, *, after: str | None = None, limit: int | None = None, type: Parse[T]
    ) -> tuple[Entry[T], ...]: ...

    def pending(
        self, key: str, *, after: str | None = None, limit: int | None = None, type: Any = None
    ) -> tuple[Entry[Any], ...]:
        """The same without the wait: an empty tuple if there is no message, and that is recorded too."""
        return self._converted(self._read(key, after, limit, waits=False), type)

    def _read(
        self, key: str, after: str | None, limit: int | None, *, waits: bool
    ) -> tuple[Entry[object], ...]:
        check_reading(after, limit)
        self._use(key)
        with self._guard:
            available = messages(self.recorded, after)[:limit]
        if self._has(key):
            bound = self._proven.handed(self, key)
        else:
            self._check_holding()
            if not available and waits:
                raise self._note(MessageNeeded(key))
            self._begin(checked=True)
            bound = self._record(key, available[-1].key if available else after)
        if bound is not None and not isinstance(bound, str):
            raise ValueError(f"step {key!r} is recorded as {bound!r}, which is no read of the inbox")
        return tuple(one for one in available if bound is not None and one.key <= bound)

    def lose(self) -> None:
        """Refuse every further step: the pass is no longer the workflow's."""
        self.lost = True

    def end(self) -> None:
        """Let no further step begin: the pass is about to say what it came to."""
        with self._guard:
            self.ended = True

    def _converted(self, entries: tuple[Entry[object], ...], type: Any) -> tuple[Entry[Any], ...]:
        if type is None:
            return entries
        typed = parser(type)
        return tuple(Entry(one.key, self._parsed(one.key, typed, one.value)) for one in entries)

    def _parsed(self, key: str, parse: Callable[[object], Any], recorded: object) -> Any:
        codec = getattr(self.checkpointer, "codec", None)
        return parsed(codec, self.workflow, key, parse, recorded)

    def _use(self, key: str) -> None:
        check_key(key)
        with self._guard:
            if key in self._used:
                raise ValueError(f"step {key!r} is used twice in one pass of workflow {self.workflow!r}")
            self._used.add(key)

    def _has(self, key: str) -> bool:
        with self._guard:
            return key in self.recorded

    def _note(self, suspension: S) -> S:
        with self._guard:
            self.reached.append(suspension)
        return suspension

    def _check_holding(self) -> None:
        if self.lost or self.ended:
            raise Fenced(self.workflow)

    def _cover(self, within: timedelta | None) -> None:
        if within is None:
            return
        check_duration("within", within)
        if not self.extend(self.holder, within):
            self.lose()
            raise Fenced(self.workflow)

    def _perform(
        self,
        key: str,
        effect: Returning[[], object],
        within: timedelta | None,
        parse: Callable[[object], Any],
        durability: Durability | None,
    ) -> object:
        if self._has(key):
            return self._proven.handed(self, key, durability)
        self._check_holding()
        if asked(self.checkpointer, durability) != "memory":
            prepared(self.checkpointer, durability)
        if within is not None:
            self._cover(within)
        value = called(effect, "the effect of step {!r} in workflow {!r}", key, self.workflow)
        value = plain(getattr(self.checkpointer, "codec", None), self.workflow, key, parse, value)
        self._begin(checked=False)
        return self._record(key, value, **option(durability))

    def _begin(self, *, checked: bool) -> None:
        """Count a write as under way from here on. An effect that has happened is recorded, ended pass or not."""
        with self._guard:
            if checked and (self.lost or self.ended):
                raise Fenced(self.workflow)
            self.writing += 1

    def _record(self, key: str, value: object, then: Then | None = None, **asked: Any) -> object:
        write = partial(self.checkpointer.record, self.holder, key, value, **asked)
        return self._kept(self._write, key, write, then)

    def _write(self, key: str, write: Returning[[], object], then: Then | None = None) -> object:
        """A write that has begun: the pass waits for it, and for what follows from it, before it gives its verdict."""
        try:
            made = write()
            value = made.value if isinstance(made, Recorded) else made
            with self._guard:
                self.recorded[key] = value
            if then is not None:
                then(value)
            return value
        except Fenced:
            self.lose()
            raise
        finally:
            with self._guard:
                self.writing -= 1
