"""What the Redis store does, each act said as one call: to be sent alone, or with others in one round trip or script."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

from durably import scripts
from durably.codec import CheckpointCodec
from durably.durability import Ack, Durability, check_durability, check_replicas, unsynced
from durably.durations import check_duration, milliseconds
from durably.fresh import nonce
from durably.keys import check_id, check_key, check_once, pass_key, workflow_key
from durably.queue_scripts import as_text, server_time
from durably.records import (
    Encoding,
    carry,
    decode_all,
    decode_field,
    encoding_of,
    in_order,
)
from durably.signals import DurabilityUnsupported
from durably.values import BUDGET, LEASE, Entry, Pass, Recorded

from durably_redis_async._client import (
    AnyRedis,
    Call,
    ResponseError,
    Script,
    is_cluster,
    send,
    send_together,
    socket_timeout,
)
from durably_redis_async._concurrency import Guard


class StoreCalls:
    """The acts of a `RedisCheckpointer` as calls."""

    redis: AnyRedis
    namespace: str
    ttl: timedelta
    codec: CheckpointCodec[Any]
    max_bytes: int | None
    abandon_after: timedelta | None
    keep_failed: timedelta | None
    raw: bool
    durability: Durability
    replicas: int | None
    acknowledged_within: timedelta
    tried: set[Durability]
    guard: Guard
    take: Script
    still_here: Script
    write: Script
    look: Script
    hand_back: Script
    prove: Script
    offer: Script
    file_away: Script
    forget: Script

    def hash_key(self, workflow: str) -> str:
        """The key of a workflow's records."""
        return workflow_key(self.namespace, workflow)

    def pass_key(self, workflow: str) -> str:
        """The key of a workflow's claim."""
        return pass_key(self.namespace, workflow)

    def _check_id(self, workflow: str) -> None:
        check_id(workflow)
        if workflow.startswith("}") and is_cluster(self.redis):
            raise ValueError(
                f"a workflow id on a cluster must not begin with a brace, which parts its keys: {workflow!r}"
            )

    @property
    def _ttl(self) -> int:
        return milliseconds(self.ttl)

    @property
    def _kind(self) -> str:
        return str(getattr(self.codec, "kind", "bytes" if self.raw else "text"))

    def _decoded(self, workflow: str, key: str, field: Encoding) -> object:
        return decode_field(self.codec, workflow, key, encoding_of(workflow, key, field), self.raw)

    def _fields(self, workflow: str, answer: Callable[[str, Any], object]) -> Call:
        self._check_id(workflow)
        command = ("HGETALL", self.hash_key(workflow))
        return Call(self.redis, command, partial(answer, workflow), raw=self.raw)

    def reading(self, workflow: str) -> Call:
        """`load` as a call, to be sent with others by `together`."""

        return self._fields(workflow, self._loaded)

    def _loaded(self, workflow: str, fields: dict[Any, Any]) -> dict[str, object]:
        return decode_all(self.codec, workflow, in_order(workflow, fields), self.raw)

    def refusal(self, error: Exception, workflow: str) -> BaseException:
        """What an error in the place of a call's answer stands for: one of ours, or the error itself."""
        return scripts.refused(str(error), workflow, "") or error

    def claiming(
        self, workflow: str, budget: timedelta = BUDGET, alive: timedelta = LEASE, *, slept: bool = False
    ) -> Call:
        """`claim` as a call, to be sent with others."""
        self._check_id(workflow)
        check_duration("a budget", budget)
        check_duration("alive", alive)
        keys, args = scripts.take(
            self.namespace, workflow, milliseconds(budget), milliseconds(alive), self._ttl, nonce(), slept
        )

        def answer(token: Any) -> Pass | None:
            return None if token is None else Pass(workflow, int(token))

        return self.take.call(keys, args, answer)

    def telling(self, workflow: str) -> Call:
        """The time of the server that a workflow's records are on, as a call."""
        return Call(self.redis, ("TIME",), server_time, at=self.hash_key(workflow))

    def renewal(self, holder: Pass, alive: timedelta = LEASE) -> Call:
        """`renew` as a call, to be sent with others by `together`."""
        check_duration("alive", alive)
        keys, args = scripts.still_here(self.namespace, holder, milliseconds(alive), self._ttl)
        return self.still_here.call(keys, args, bool)

    async def together(self, calls: Sequence[Call]) -> list[object]:
        """The answers of calls, one round trip per client; an error stands in the place of its answer."""
        return await send_together(calls)

    def releasing(self, holder: Pass, outcome: object = None, known: int | None = None) -> Call:
        """`release` as a call, to be sent with others. `known`: how many records the pass knows of.

        Its answer is whether the server has them. Where it has fewer, it is not told the outcome.
        """
        keys, args = scripts.hand_back(
            self.namespace, holder, self._ttl, outcome, self.abandon_after, self.keep_failed, known
        )
        return self.hand_back.call(keys, args, scripts.is_complete)

    def recording(self, holder: Pass, key: str, value: object, durability: Durability | None = None) -> Call:
        """`record` as a call; its answer is a `Recorded`. Refusals of ours come as the server's errors."""
        check_key(key)
        workflow = holder.workflow
        encoding, back = carry(self.codec, workflow, key, value, self.max_bytes)

        answer = partial(self._recorded, workflow, key, encoding, back)
        ack = self.ack(workflow, key, durability)
        keys, args = scripts.write(self.namespace, holder, key, encoding, self._ttl, ack is not None)
        return self.write.call(keys, args, answer, raw=self.raw, ack=ack)

    def _recorded(self, workflow: str, key: str, encoding: Encoding, back: object, stored: Any) -> Recorded:
        if stored is None or encoding_of(workflow, key, stored) == encoding:
            return Recorded(back, True)
        return Recorded(self._decoded(workflow, key, stored), False)

    def looking(self, holder: Pass, key: str) -> Call:
        """What is recorded of a step, as a call; its answer is the value, or `None`."""

        def answer(stored: Any) -> object:
            return None if stored is None else self._decoded(holder.workflow, key, stored)

        ack = self.ack(holder.workflow, key)
        keys, args = scripts.look(self.namespace, holder, key, ack is not None)
        return self.look.call(keys, args, answer, raw=self.raw, ack=ack)

    def ack(self, workflow: str, key: str, durability: Durability | None = None) -> Ack | None:
        """What a write asks for, `None` for nothing. `durability`: unset, the store's.

        Raises `ValueError` for no level, for a number of replicas that does not fit it, and where the client would not
        wait for the answer.
        """
        if (self.durability if durability is None else durability) == "memory" and self.replicas is None:
            return None
        level = check_durability(self.durability if durability is None else durability)
        count = check_replicas(self.replicas, level)
        if level == "memory":
            return None
        patience = socket_timeout(self.redis)
        if patience is not None and self.acknowledged_within.total_seconds() >= patience:
            raise ValueError(
                f"acknowledged_within ({self.acknowledged_within.total_seconds():g} s) must be shorter than the "
                f"client's socket_timeout ({patience:g} s), or the client gives up before the answer comes"
            )
        return Ack(level, count, milliseconds(self.acknowledged_within), workflow, key)

    async def prepare(self, durability: Durability | None = None) -> None:
        """Ask the server, once, whether it can acknowledge what `durability` (unset: the store's) asks for.

        Every write that asks for it does so by itself. Raises `DurabilityUnsupported`; nothing is written.
        """
        ack = self.ack("", "", durability)
        if ack is None or ack.durability in self.tried:
            return
        at = self.hash_key("-")
        trial = Call(self.redis, ack.trial, bool, at=at)
        try:
            await send(trial)
            why = None if ack.durability == "replicas" else await self._unsynced(at)
        except ResponseError as error:
            why = f"it says: {error}"
        if why is not None:
            raise DurabilityUnsupported(f"this server cannot keep durability={ack.durability!r}: {why}")
        with self.guard:
            self.tried.add(ack.durability)

    async def _unsynced(self, at: str) -> str | None:
        info = await send(Call(self.redis, ("INFO",), dict, at=at))
        try:
            setting = await send(Call(self.redis, ("CONFIG GET", "appendfsync"), dict, at=at))
        except ResponseError:
            setting = {}
        return unsynced(info, next((as_text(one) for one in setting.values()), None))

    def proving(self, holder: Pass, ack: Ack) -> Call:
        """A write that asks, for a pass that was handed what is recorded, whether that is acknowledged."""
        keys, args = scripts.prove(self.namespace, holder)
        return self.prove.call(keys, args, bool, ack=ack)

    def supplying(self, workflow: str, key: str, value: object) -> Call:
        """`supply` as a call; its answer is what is recorded now."""
        self._check_id(workflow)
        check_key(key)
        encoding, back = carry(self.codec, workflow, key, value, self.max_bytes)

        def answer(stored: Any) -> object:
            if stored is None:
                return back
            return self._decoded(workflow, key, stored)

        ack = self.ack(workflow, key)
        keys, args = scripts.offer(self.namespace, workflow, key, encoding, self._ttl, ack is not None)
        return self.offer.call(keys, args, answer, raw=self.raw, ack=ack)

    def appending(self, workflow: str, value: object, once: str | None = None) -> Call:
        """`append` as a call; its answer is the `Entry`."""
        self._check_id(workflow)
        check_once(once)
        encoding, back = carry(self.codec, workflow, "inbox", value, self.max_bytes)

        def answer(key: Any) -> Entry[object]:
            return Entry(key if isinstance(key, str) else key.decode(), back)

        ack = self.ack(workflow, "inbox")
        keys, args = scripts.file_away(
            self.namespace, workflow, encoding, self._ttl, nonce(), once, ack is not None
        )
        return self.file_away.call(keys, args, answer, ack=ack)

    def discarding(self, workflow: str) -> Call:
        """`discard` as a call; its answer is how many records there were."""
        self._check_id(workflow)
        keys, args = scripts.forget(self.namespace, workflow, self._ttl, nonce())
        return self.forget.call(keys, args, int)
