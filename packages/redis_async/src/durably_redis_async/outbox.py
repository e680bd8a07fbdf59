"""Starting and messaging other workflows out of a body, exactly once.

Where store and queue can say it in one script, the step's record and what it sends are one commit. Elsewhere the
intention is recorded, delivered under its own name, and then noted as delivered: a pass that finds an intention
without that note delivers it again, and the receiver knows it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from durably.fresh import fresh
from durably.posting import Intention, check_intention, intended, sent_key
from durably.values import INPUT, Pass

from durably_redis_async._concurrency import Returning, shielded
from durably_redis_async.interfaces import Checkpointer
from durably_redis_async.proving import Proven


class Outbox:
    """What a `Run` sends to other workflows."""

    holder: Pass
    checkpointer: Checkpointer[Any]
    recorded: dict[str, object]
    durable: Any
    _proven: Proven
    lose: Callable[[], None]
    _use: Callable[[str], None]
    _has: Callable[[str], bool]
    _begin: Callable[..., None]
    _check_holding: Callable[[], None]
    _record: Returning[..., object]
    _write: Returning[..., object]

    async def start(self, key: str, workflow: str, value: object = None, *, input_key: str = INPUT) -> str:
        """Start another workflow as a step, once over all passes: record its input, and ask for a pass over it.

        Its first start's input stands, whoever started it. Returns its id. Raises `Fenced` if the pass has lost its
        workflow, and `RuntimeError` for a pass without a queue (`resume` without `durable`).
        """
        return await self._post(key, workflow, value, input_key)

    async def send(self, key: str, workflow: str, value: object) -> str:
        """Send a message to another workflow's inbox as a step, once over all passes, and ask for a pass over it.

        Returns the key that it was filed under. Raises as `start` does.
        """
        return await self._post(key, workflow, value, None)

    async def _post(self, key: str, workflow: str, value: object, under: str | None) -> str:
        check_intention(workflow, under)
        sent = sent_key(key)
        self._use(key)
        self._use(sent)
        if self._has(key):
            told = intended(self.holder.workflow, key, await self._proven.handed(self, key))
            if isinstance(told, str):
                return told
            if self._has(sent):
                return str(await self._proven.handed(self, sent))
        if self.durable is None:
            raise RuntimeError(
                f"step {key!r} of workflow {self.holder.workflow!r} sends something, and this pass has no queue: "
                "give it one with resume(..., durable=durable)"
            )
        self._check_holding()
        at_once: Any = getattr(self.durable, "post_in_step", None)
        if at_once is not None and not self._has(key):

            async def commit() -> object:
                return await at_once(self.holder, key, workflow, value, under)

            self._begin(checked=True)
            stands = await shielded(self._write, key, commit)
        else:
            self._begin(checked=True)
            stands = await self._record(key, Intention(workflow, under, value, fresh()).plain())
        told = intended(self.holder.workflow, key, stands)
        if isinstance(told, str):
            return told
        filed = await self._deliver(told)
        self._begin(checked=True)
        return str(await self._record(sent, filed))

    async def _deliver(self, message: Intention) -> str:
        if message.under is not None:
            await self.durable.start(message.to, message.value, key=message.under)
            return message.to
        entry = await self.durable.deliver(message.to, message.value, once=message.once)
        return str(entry.key)
