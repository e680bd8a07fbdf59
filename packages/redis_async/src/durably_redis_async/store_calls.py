"""What the Redis store does, each act said as one call: to be sent alone, or with others in one round trip or script."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, TypeVar
from uuid import uuid4

from durably import scripts
from durably.codec import CheckpointCodec
from durably.durations import check_duration, milliseconds
from durably.keys import check_id, check_key, pass_key, workflow_key
from durably.queue_scripts import server_time
from durably.records import (
    Encoding,
    Row,
    carry,
    decode_all,
    decode_field,
    encoding_of,
    in_order,
)
from durably.values import BUDGET, LEASE, Entry, Pass

from durably_redis_async._client import AnyRedis, Call, Script, is_cluster, send_together

T = TypeVar("T")


class StoreCalls:
    """The acts of a `RedisCheckpointer` as calls."""

    redis: AnyRedis
    namespace: str
    ttl: timedelta
    codec: CheckpointCodec[Any]
    max_bytes: int | None
    abandon_after: timedelta | None
    raw: bool
    take: Script
    still_here: Script
    hand_back: Script
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

    def _fields(self, workflow: str, answer: Callable[[list[Row]], T]) -> Call:
        self._check_id(workflow)

        def in_turn(fields: dict[str, str]) -> T:
            return answer(in_order(workflow, fields))

        return Call(self.redis, ("HGETALL", self.hash_key(workflow)), in_turn, raw=self.raw)

    def reading(self, workflow: str) -> Call:
        """`load` as a call, to be sent with others by `together`."""

        def answer(rows: list[Row]) -> dict[str, object]:
            return decode_all(self.codec, workflow, rows, self.raw)

        return self._fields(workflow, answer)

    def claiming(self, workflow: str, budget: timedelta = BUDGET, alive: timedelta = LEASE) -> Call:
        """`claim` as a call, to be sent with others."""
        self._check_id(workflow)
        check_duration("a budget", budget)
        check_duration("alive", alive)
        keys, args = scripts.take(
            self.namespace, workflow, milliseconds(budget), milliseconds(alive), self._ttl, uuid4().hex
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

    def releasing(self, holder: Pass, outcome: object = None) -> Call:
        """`release` as a call, to be sent with others."""
        keys, args = scripts.hand_back(self.namespace, holder, self._ttl, outcome, self.abandon_after)
        return self.hand_back.call(keys, args, bool)

    def supplying(self, workflow: str, key: str, value: object) -> Call:
        """`supply` as a call; its answer is what is recorded now."""
        self._check_id(workflow)
        check_key(key)
        encoding, back = carry(self.codec, workflow, key, value, self.max_bytes)

        def answer(stored: Any) -> object:
            if stored is None:
                return back
            return self._decoded(workflow, key, stored)

        keys, args = scripts.offer(self.namespace, workflow, key, encoding, self._ttl)
        return self.offer.call(keys, args, answer, raw=self.raw)

    def appending(self, workflow: str, value: object) -> Call:
        """`append` as a call; its answer is the `Entry`."""
        self._check_id(workflow)
        encoding, back = carry(self.codec, workflow, "inbox", value, self.max_bytes)

        def answer(key: Any) -> Entry[object]:
            return Entry(key if isinstance(key, str) else key.decode(), back)

        keys, args = scripts.file_away(self.namespace, workflow, encoding, self._ttl, uuid4().hex)
        return self.file_away.call(keys, args, answer)

    def discarding(self, workflow: str) -> Call:
        """`discard` as a call; its answer is how many records there were."""
        self._check_id(workflow)
        keys, args = scripts.forget(self.namespace, workflow, self._ttl, uuid4().hex)
        return self.forget.call(keys, args, int)
