"""What a pass asks of a store that acknowledges: whether it can, before an effect, and for records it was handed."""

from __future__ import annotations

from typing import Any, Protocol

from durably.durability import Durability, check_durability
from durably.signals import Fenced
from durably.values import Pass

from durably_redis_async._concurrency import Guard
from durably_redis_async.interfaces import Checkpointer


def asked(checkpointer: Checkpointer[Any], durability: Durability | None) -> Durability:
    """The level of a step: its own, or the store's. Raises `ValueError` for one that there is not."""
    if durability is not None:
        return check_durability(durability)
    own: Durability = getattr(checkpointer, "durability", "memory")
    return own


def option(durability: Durability | None) -> dict[str, Any]:
    """`durability` as an option of the store's calls; none where the step has none of its own."""
    return {} if durability is None else {"durability": durability}


async def prepared(checkpointer: Checkpointer[Any], durability: Durability | None) -> None:
    """Before an effect: whether its record can be acknowledged as asked. Raises `DurabilityUnsupported`."""
    level = asked(checkpointer, durability)
    prepare = getattr(checkpointer, "prepare", None)
    if level != "memory" and prepare is not None:
        await prepare(level)


async def confirmed(
    checkpointer: Checkpointer[Any], holder: Pass, key: str, durability: Durability | None = None
) -> None:
    """Return when what was recorded before the claim is as durable as asked. Raises `NotDurable`, `Fenced`."""
    level = asked(checkpointer, durability)
    confirm = getattr(checkpointer, "confirm", None)
    if level != "memory" and confirm is not None:
        await confirm(holder, key, durability=level)


class Passing(Protocol):
    """What is asked of a pass here."""

    holder: Pass
    checkpointer: Checkpointer[Any]
    recorded: dict[str, object]

    def lose(self) -> None:
        """Refuse every further step."""
        ...


class Proven:
    """The levels at which one pass has had the records that it was handed acknowledged."""

    def __init__(self) -> None:
        self._levels: set[Durability] = set()
        self._guard = Guard()

    async def handed(self, run: Passing, key: str, durability: Durability | None = None) -> object:
        """What is recorded under `key`. An earlier pass may have left it unacknowledged, so the store is asked, once per
        level: what came before the claim is acknowledged all at once. Raises `NotDurable`, `Fenced`."""
        level = asked(run.checkpointer, durability)
        with self._guard:
            known = level in self._levels
        if not known:
            try:
                await confirmed(run.checkpointer, run.holder, key, level)
            except Fenced:
                run.lose()
                raise
            with self._guard:
                self._levels.add(level)
        return run.recorded[key]
