# Generated from packages/redis_async/src/durably_redis_async/memory.py by twin.py. Edit that file.
"""A checkpointer in memory, for tests and for trying things out: it owes, and keeps, what the Redis one does.

All state is under a guard, which is a real lock where threads share it. Nothing waits while it is held.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from durably.codec import JSON, CheckpointCodec
from durably.durability import Durability
from durably.durations import check_duration
from durably.keys import check_id, check_key, check_once
from durably.records import MAX_BYTES, Encoding, carry, check_max_bytes, decode
from durably.signals import CheckpointGone, EffectTorn, Fenced
from durably.values import BUDGET, LEASE, Entry, Pass, Recorded, Written, inbox_key, now_utc

from durably_redis_sync._concurrency import Guard, Returning, sleep

_LOOK = 0.005


@dataclass
class _Claim:
    token: int
    until: datetime
    alive: datetime
    worth: timedelta
    released: bool = False


@dataclass
class _Workflow:
    records: dict[str, tuple[Encoding, datetime]] = field(default_factory=dict)
    claim: _Claim | None = None
    running: set[str] = field(default_factory=set)
    torn: dict[str, str] = field(default_factory=dict)
    got: dict[str, str] = field(default_factory=dict)


@dataclass
class MemoryCheckpointer:
    """Checkpoints in this process.

    `codec`, `max_bytes`: as for the Redis store. `now`: the clock (aware). The effect of a `transact` is a call without arguments.
    """

    codec: CheckpointCodec[Any] = JSON
    now: Callable[[], datetime] = now_utc
    max_bytes: int | None = field(default=MAX_BYTES, kw_only=True)
    _workflows: dict[str, _Workflow] = field(default_factory=dict, init=False, repr=False)
    _guard: Guard = field(default_factory=Guard, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_max_bytes(self.max_bytes)

    def _of(self, workflow: str) -> _Workflow:
        return self._workflows.setdefault(workflow, _Workflow())

    def _known(self, workflow: str) -> list[tuple[str, Encoding, datetime]]:
        check_id(workflow)
        with self._guard:
            known = self._workflows.get(workflow)
            return [] if known is None else [(key, text, at) for key, (text, at) in known.records.items()]

    def load(self, workflow: str) -> dict[str, object]:
        """Every recorded step, in the order of first recording."""
        return {key: decode(self.codec, workflow, key, text) for key, text, _ in self._known(workflow)}

    def history(self, workflow: str) -> dict[str, Written]:
        """The same, with the time of each write."""
        return {
            key: Written(decode(self.codec, workflow, key, text), at)
            for key, text, at in self._known(workflow)
        }

    def claim(
        self, workflow: str, budget: timedelta = BUDGET, alive: timedelta = LEASE, *, slept: bool = False
    ) -> Pass | None:
        """The right to run one pass; `None` while it is held. Raises `CheckpointGone` for one that slept and of which
        nothing is known here."""
        check_id(workflow)
        check_duration("a budget", budget)
        check_duration("alive", alive)
        with self._guard:
            now = self.now()
            if slept and workflow not in self._workflows:
                raise CheckpointGone(workflow)
            one = self._of(workflow)
            held = one.claim
            if held is not None and not held.released and min(held.until, held.alive) > now:
                return None
            token = max(int(now.timestamp() * 1000), held.token + 1 if held is not None else 0)
            one.claim = _Claim(token, now + budget, now + min(budget, alive), alive)
            return Pass(workflow, token)

    def _held(self, holder: Pass) -> _Claim | None:
        known = self._workflows.get(holder.workflow)
        held = None if known is None else known.claim
        return None if held is None or holder.token < held.token else held

    def extend(self, holder: Pass, budget: timedelta, alive: timedelta = LEASE) -> bool:
        """Let the claim's budget end `budget` from now or later; `False` if the claim is lost or was released."""
        check_duration("a budget", budget)
        check_duration("alive", alive)
        with self._guard:
            held = self._held(holder)
            if held is None or held.released:
                return False
            now = self.now()
            held.until = max(held.until, now + budget)
            held.worth = alive
            held.alive = min(held.until, now + alive)
            return True

    def renew(self, holder: Pass, alive: timedelta = LEASE) -> bool:
        """One sign of life; `False` if the claim is lost, released, or its budget spent."""
        check_duration("alive", alive)
        with self._guard:
            held = self._held(holder)
            now = self.now()
            if held is None or held.released or held.until <= now:
                return False
            held.worth = alive
            held.alive = min(held.until, now + alive)
            return True

    def release(self, holder: Pass, outcome: object = None) -> None:
        """Give the claim back; silent if it is lost. Nothing expires here, whatever the `outcome`."""
        with self._guard:
            held = self._held(holder)
            if held is not None and held.token == holder.token:
                held.released = True

    def _write(self, one: _Workflow, held: _Claim | None, key: str, text: Encoding) -> Encoding:
        """Under the guard: record unless there is a record; what is recorded now."""
        if key in one.records:
            return one.records[key][0]
        now = self.now()
        one.records[key] = (text, now)
        if held is not None and not held.released:
            held.alive = min(held.until, now + held.worth)
        return text

    def record(
        self, holder: Pass, key: str, value: object, *, durability: Durability | None = None
    ) -> Recorded:
        """Record a step, once. Raises `Fenced` if the claim is lost, `Unencodable` for a value that cannot be kept.

        `durability` changes nothing here.
        """
        check_key(key)
        text, back = carry(self.codec, holder.workflow, key, value, self.max_bytes)
        with self._guard:
            held = self._held(holder)
            if held is None:
                raise Fenced(holder.workflow)
            stands = self._write(self._of(holder.workflow), held, key, text)
        if stands == text:
            return Recorded(back, True)
        return Recorded(decode(self.codec, holder.workflow, key, stands), False)

    def transact(
        self,
        holder: Pass,
        key: str,
        effect: Returning[[], object],
        *,
        durability: Durability | None = None,
    ) -> object:
        """Run `effect` at most once over all passes and record what it returns.

        Raises `Fenced` if the claim is lost; what the effect raises, which then counts as not having happened; and
        `EffectTorn`, now or in a later pass, if it was stopped in the middle or its result cannot be recorded.
        """
        check_key(key)
        while True:
            with self._guard:
                if self._held(holder) is None:
                    raise Fenced(holder.workflow)
                one = self._of(holder.workflow)
                stored = one.records.get(key)
                if stored is None and key in one.torn:
                    raise EffectTorn(holder.workflow, key, one.torn[key])
                if stored is not None or key not in one.running:
                    if stored is None:
                        one.running.add(key)
                    break
            sleep(_LOOK)
        if stored is not None:
            return decode(self.codec, holder.workflow, key, stored[0])
        problem: str | None = "the effect was stopped before its end"
        try:
            try:
                result = effect()
            except Exception:
                problem = None
                raise
            try:
                text, back = carry(self.codec, holder.workflow, key, result, self.max_bytes)
            except (TypeError, ValueError) as error:
                problem = str(error)
                raise EffectTorn(holder.workflow, key, problem) from error
            problem = None
            with self._guard:
                self._write(one, self._held(holder), key, text)
            return back
        finally:
            with self._guard:
                one.running.discard(key)
                if problem is not None:
                    one.torn[key] = problem

    def clear_torn(self, workflow: str, key: str) -> bool:
        """Let a torn step run again; whether it was torn."""
        with self._guard:
            return self._of(check_id(workflow)).torn.pop(check_key(key), None) is not None

    def supply(self, workflow: str, key: str, value: object) -> object:
        """Record a value that the workflow waits for at `key`; returns what is recorded now."""
        check_id(workflow)
        check_key(key)
        text, back = carry(self.codec, workflow, key, value, self.max_bytes)
        with self._guard:
            stands = self._write(self._of(workflow), None, key, text)
        return back if stands == text else decode(self.codec, workflow, key, stands)

    def append(self, workflow: str, value: object, *, once: str | None = None) -> Entry[object]:
        """File a message in the workflow's inbox. `once`: its own name, under which it is filed once, however often."""
        check_id(workflow)
        check_once(once)
        text, back = carry(self.codec, workflow, "inbox", value, self.max_bytes)
        with self._guard:
            one = self._of(workflow)
            known = None if once is None else one.got.get(once)
            key = known or inbox_key(len(one.records))
            if known is None:
                self._write(one, None, key, text)
            if once is not None:
                one.got[once] = key
        return Entry(key, back)

    def discard(self, workflow: str) -> int:
        """Remove every record, and fence a pass in flight; returns how many records there were."""
        check_id(workflow)
        with self._guard:
            known = self._workflows.get(workflow)
            if known is None:
                return 0
            now = self.now()
            token = max(int(now.timestamp() * 1000), known.claim.token + 1 if known.claim is not None else 0)
            self._workflows[workflow] = _Workflow(claim=_Claim(token, now, now, LEASE, released=True))
            return len(known.records)
