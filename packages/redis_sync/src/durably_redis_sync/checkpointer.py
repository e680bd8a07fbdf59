# Generated from packages/redis_async/src/durably_redis_async/checkpointer.py by twin.py. Edit that file.
"""A workflow's records as one Redis hash, its claim as another. Each guarantee is one script in `durably.lua`."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from durably import scripts
from durably.codec import JSON, CheckpointCodec
from durably.durability import ACKNOWLEDGED_WITHIN, Ack, Durability
from durably.durations import check_duration, milliseconds
from durably.effects import LuaEffect
from durably.keys import check_id, check_key, check_namespace
from durably.lua import splice
from durably.records import (
    MAX_BYTES,
    check_max_bytes,
    decode_all,
    decode_field,
    in_order,
    is_bytes,
    moment,
)
from durably.values import BUDGET, LEASE, Entry, Pass, Recorded, Written

from durably_redis_sync._client import (
    AnyRedis,
    ResponseError,
    Script,
    Transport,
    check_client,
    check_slot,
    is_cluster,
    patiently,
    register,
    send,
    use_transport,
)
from durably_redis_sync._concurrency import Guard
from durably_redis_sync.store_calls import StoreCalls


@dataclass
class RedisCheckpointer(StoreCalls):
    """Checkpoints in Redis.

    `redis` must be built with `decode_responses=True` (either way if the codec gives bytes). `namespace` (text without
    braces) keeps the keys apart from what else is in the database. `ttl` is how long records live after the last write, once the workflow is not
    asleep or blocked: one that waits outlives its wait. `abandon_after`: how long a blocked workflow is kept (unset: until
    it is deleted). `keep_failed`: how long a workflow's records are kept after a pass that failed, and is not tried again
    (unset: for `ttl`, and what had no end keeps none). `codec` says how values are recorded, and every process that shares
    the namespace must use the same. `max_bytes`: how large one encoded value may be (`None`: any size).

    `durability`: what a write must have reached before its call returns: `"memory"` (the server accepted it),
    `"replicas"` (`replicas` other servers have it; unset, one), or `"disk"` (the server's append-only file holds it,
    synced; with `replicas`, that many replicas' files as well). One that is not acknowledged within
    `acknowledged_within` (shorter than the client's `socket_timeout`) raises `NotDurable`, and stands; a server that
    cannot acknowledge is refused with `DurabilityUnsupported` before the first write. See `docs/durability.md`.

    `transport`: how calls that are sent together go over this client, whoever makes them: `"lean"` (unset, this one)
    writes them straight to a connection of the client's pool, `"plain"` uses the client's own pipelines, which is slower,
    and is what tools see that watch those. A client of a class of your own, or of a cluster, is always used plainly.

    Raises `ValueError` or `TypeError` for what does not fit.
    """

    redis: AnyRedis
    namespace: str = "workflow"
    ttl: timedelta = timedelta(days=1)
    codec: CheckpointCodec[Any] = JSON
    take: Script = field(init=False, repr=False, compare=False)
    stretch: Script = field(init=False, repr=False, compare=False)
    still_here: Script = field(init=False, repr=False, compare=False)
    write: Script = field(init=False, repr=False, compare=False)
    look: Script = field(init=False, repr=False, compare=False)
    offer: Script = field(init=False, repr=False, compare=False)
    file_away: Script = field(init=False, repr=False, compare=False)
    forget: Script = field(init=False, repr=False, compare=False)
    hand_back: Script = field(init=False, repr=False, compare=False)
    prove: Script = field(init=False, repr=False, compare=False)
    transactions: dict[str, Script] = field(default_factory=dict, init=False, repr=False, compare=False)
    guard: Guard = field(default_factory=Guard, init=False, repr=False, compare=False)
    max_bytes: int | None = field(default=MAX_BYTES, kw_only=True)
    abandon_after: timedelta | None = field(default=None, kw_only=True)
    keep_failed: timedelta | None = field(default=None, kw_only=True)
    durability: Durability = field(default="memory", kw_only=True)
    replicas: int | None = field(default=None, kw_only=True)
    acknowledged_within: timedelta = field(default=ACKNOWLEDGED_WITHIN, kw_only=True)
    transport: Transport | None = field(default=None, kw_only=True)
    tried: set[Durability] = field(default_factory=set, init=False, repr=False, compare=False)
    raw: bool = field(default=False, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.raw = is_bytes(self.codec)
        check_client(self.redis, text=not self.raw)
        if self.transport is not None:
            use_transport(self.redis, self.transport)
        check_max_bytes(self.max_bytes)
        if self.abandon_after is not None:
            check_duration("abandon_after", self.abandon_after)
        if self.keep_failed is not None:
            check_duration("keep_failed", self.keep_failed)
        check_namespace(self.namespace)
        check_duration("ttl", self.ttl)
        check_duration("acknowledged_within", self.acknowledged_within)
        self.ack("", "")
        self.take = register(self.redis, scripts.TAKE)
        self.stretch = register(self.redis, scripts.STRETCH)
        self.still_here = register(self.redis, scripts.STILL_HERE)
        self.write = register(self.redis, scripts.WRITE)
        self.look = register(self.redis, scripts.LOOK)
        self.offer = register(self.redis, scripts.OFFER)
        self.file_away = register(self.redis, scripts.FILE_AWAY)
        self.forget = register(self.redis, scripts.FORGET)
        self.hand_back = register(self.redis, scripts.HAND_BACK)
        self.prove = register(self.redis, scripts.PROVE)

    @property
    def gathers(self) -> bool:
        """Whether what it does waits for nothing but calls that gather: a class of somebody's own may wait for more."""
        return type(self) is RedisCheckpointer and not is_cluster(self.redis)

    def transaction(self, source: str) -> Script:
        """The script that runs the effect `source`, built once per source."""
        with self.guard:
            known = self.transactions.get(source)
            if known is None:
                known = register(self.redis, splice(scripts.TRANSACT, source))
                self.transactions[source] = known
        return known

    def load(self, workflow: str) -> dict[str, object]:
        """Every recorded step, in the order of first recording. Raises `Undecodable` naming a step it cannot read."""
        recorded: dict[str, object] = send(self.reading(workflow))
        return recorded

    def history(self, workflow: str) -> dict[str, Written]:
        """The same, with the server's time of each write."""

        def answer(workflow: str, fields: dict[Any, Any]) -> dict[str, Written]:
            rows = in_order(workflow, fields)
            values = decode_all(self.codec, workflow, rows, self.raw)
            return {
                key: Written(values[key], moment(at)) for key, at in zip(rows.steps, rows.times, strict=True)
            }

        written: dict[str, Written] = send(self._fields(workflow, answer))
        return written

    def claim(
        self, workflow: str, budget: timedelta = BUDGET, alive: timedelta = LEASE, *, slept: bool = False
    ) -> Pass | None:
        """The right to run one pass of at most `budget`, with a sign of life every `alive`; `None` while it is held.

        Raises `CheckpointGone` if the workflow has not ended and records of it are gone; `slept`: the wakeup came out
        of a sleep, so that something is recorded.
        """
        try:
            holder: Pass | None = send(self.claiming(workflow, budget, alive, slept=slept))
        except ResponseError as error:
            raise self.refusal(error, workflow) from None
        return holder

    def extend(self, holder: Pass, budget: timedelta, alive: timedelta = LEASE) -> bool:
        """Let the claim's budget end `budget` from now or later; `False` if the claim is lost or was released."""
        check_duration("a budget", budget)
        check_duration("alive", alive)
        keys, args = scripts.stretch(
            self.namespace, holder, milliseconds(budget), milliseconds(alive), self._ttl
        )
        return bool(self.stretch(keys, args))

    def renew(self, holder: Pass, alive: timedelta = LEASE) -> bool:
        """One sign of life, worth `alive`; `False` if the claim is lost, released, or its budget spent."""
        return bool(send(self.renewal(holder, alive)))

    def release(self, holder: Pass, outcome: object = None) -> None:
        """Give the claim back; silent if it is lost. `outcome`: what the pass came to, so that nothing that waits expires.

        A sleeping workflow's records outlive its deadline by `ttl`, a blocked one's are kept (for `abandon_after`, if
        given), a completed one's live for `ttl` from now. Without `outcome` nothing changes.
        """
        send(self.releasing(holder, outcome))

    def record(
        self, holder: Pass, key: str, value: object, *, durability: Durability | None = None
    ) -> Recorded:
        """Record a step, once. `durability`: unset, the store's.

        Raises `Fenced` if the claim is lost, `Unencodable` for a value that cannot be kept, `NotDurable`.
        """
        call = self.recording(holder, key, value, durability)
        if call.ack is not None:
            self.prepare(durability)
        try:
            recorded: Recorded = send(call)
        except ResponseError as error:
            ours = scripts.refused(str(error), holder.workflow, key)
            raise error if ours is None else ours from None
        return recorded

    def _asks(self, workflow: str, key: str, durability: Durability | None = None) -> Ack | None:
        """What a write asks for, from a server that can be asked."""
        ack = self.ack(workflow, key, durability)
        if ack is not None:
            self.prepare(durability)
        return ack

    def confirm(self, holder: Pass, key: str, *, durability: Durability | None = None) -> None:
        """Return when what was recorded before this claim is as durable as `durability` (unset: the store's) asks.

        For a pass that is handed a record: an earlier one may have left it unacknowledged. `key` is named in the error.
        Raises `NotDurable`, and `Fenced` if the claim is not on the server (any more).
        """
        ack = self._asks(holder.workflow, key, durability)
        if ack is None:
            return
        try:
            send(self.proving(holder, ack))
        except ResponseError as error:
            ours = scripts.refused(str(error), holder.workflow, key)
            raise error if ours is None else ours from None

    def transact(
        self, holder: Pass, key: str, effect: LuaEffect, *, durability: Durability | None = None
    ) -> object:
        """Run `effect` in the server and record its result, in one step, at most once over all passes.

        Raises `Fenced` if the claim is lost; `EffectTorn` if it failed after a write of its own, now or in an earlier
        pass; `EffectResultError` if it returned something other than text and wrote nothing; and the effect's own
        error, which is the server's, if it failed before any write; `NotDurable`. `durability`: unset, the store's.
        """
        check_key(key)
        if not isinstance(effect, LuaEffect):
            raise TypeError(f"the effect of step {key!r} must be a LuaEffect, not {type(effect).__name__}")
        home = self.hash_key(holder.workflow)
        check_slot(self.redis, home, effect.keys, holder.workflow, f"the effect of step {key!r}")
        ack = self._asks(holder.workflow, key, durability)
        keys, args = scripts.transact(
            self.namespace, holder, key, self._ttl, self._kind, effect.keys, effect.args, ack is not None
        )

        def answer(reply: Any) -> object:
            before, text = reply
            if before:
                return self._decoded(holder.workflow, key, text)
            return decode_field(self.codec, holder.workflow, key, text, self.raw)

        run = self.transaction(effect.source)
        try:
            return send(run.call(keys, args, answer, raw=self.raw, ack=ack))
        except ResponseError as error:
            ours = scripts.refused(str(error), holder.workflow, key)
            raise error if ours is None else ours from None

    def clear_torn(self, workflow: str, key: str) -> bool:
        """Let a torn step run again, once an operator has put right what it left; whether it was torn."""
        check_id(workflow)
        check_key(key)
        where = self.pass_key(workflow)
        return bool(patiently(self.redis, lambda: self.redis.hdel(where, f"torn:{key}")))

    def supply(self, workflow: str, key: str, value: object) -> object:
        """Record a value that the workflow waits for at `key`; returns what is recorded now: the first one stands."""
        call = self.supplying(workflow, key, value)
        self.prepare()
        return send(call)

    def append(self, workflow: str, value: object, *, once: str | None = None) -> Entry[object]:
        """File a message in the workflow's inbox. `once`: its own name, under which it is filed once, however often."""
        call = self.appending(workflow, value, once)
        self.prepare()
        entry: Entry[object] = send(call)
        return entry

    def discard(self, workflow: str) -> int:
        """Remove every record, and fence a pass in flight; returns how many records there were."""
        return int(send(self.discarding(workflow)))
