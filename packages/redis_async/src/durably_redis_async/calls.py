"""What is said to a server, as values: a script that survives what servers do to scripts, and a call."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from durably.durability import Ack
from durably.lua import in_one, in_step

from durably_redis_async._patience import AnyRedis, NoScriptError, patiently


class Script:
    """One Lua script on one client: sent by its digest, and whole where the server does not know it (any more)."""

    def __init__(self, client: AnyRedis, source: str) -> None:
        self.client = client
        self.source = source
        self.sha = hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest()

    async def __call__(self, keys: Sequence[str] = (), args: Sequence[str | int | float | bytes] = ()) -> Any:
        """Run it. Raises what the server or the connection raises."""

        async def by_digest() -> Any:
            client: Any = self.client
            try:
                return await client.evalsha(self.sha, len(keys), *keys, *args)
            except NoScriptError:
                return await client.eval(self.source, len(keys), *keys, *args)

        return await patiently(self.client, by_digest)

    def call(
        self,
        keys: Sequence[str],
        args: Sequence[str | int | float | bytes],
        answer: Callable[[Any], Any],
        *,
        raw: bool = False,
        ack: Ack | None = None,
    ) -> Call:
        """A call of it, to be sent with others."""
        command = ("EVALSHA", self.sha, len(keys), *keys, *args)
        return Call(self.client, command, answer, self.source, raw, None, ack)


@dataclass(slots=True, eq=False)
class Call:
    """One command, with what makes its answer of the reply, and the script's source if it runs one.

    `raw`: the reply is read as bytes, whatever the client decodes. `at`: the key whose node is meant, where the
    command names none. `ack`: what must have acknowledged its write before it is answered.
    """

    client: AnyRedis
    command: tuple[str | int | float | bytes, ...]
    answer: Callable[[Any], Any]
    source: str | None = None
    raw: bool = False
    at: str | None = None
    ack: Ack | None = None

    def then(self, made: Callable[[Any], Any]) -> Call:
        """The same call, whose answer is made into another."""
        return replace(self, answer=lambda reply: made(self.answer(reply)))

    @property
    def key(self) -> str:
        """The key that decides which node of a cluster is spoken to."""
        if self.at is not None:
            return self.at
        return str(self.command[1] if self.source is None else self.command[3])


def register(client: AnyRedis, source: str) -> Script:
    """`source` as a script of `client`. Sends nothing."""
    return Script(client, source)


def in_one_script(first: Call, second: Call) -> Call:
    """Two calls of scripts as one script: both, or where the first is refused, neither. Its answer is a pair."""
    if first.source is None or second.source is None:
        raise ValueError("only calls of scripts can be made one")
    (keys, args), (other_keys, other_args) = _request(first), _request(second)
    script = register(first.client, in_one(first.source, second.source))
    both = [len(keys), len(args), *args, *other_args]

    def answer(reply: Any) -> tuple[Any, Any]:
        return first.answer(reply[0]), second.answer(reply[1])

    return script.call([*keys, *other_keys], both, answer, raw=first.raw, ack=first.ack)


def in_one_step(
    look: Call, ring: Call, send: Call, write: Call, mark: str, answer: Callable[[Any, Any], Any]
) -> Call:
    """Four calls of scripts as one script, as `in_step` says. `answer` makes its answer of the two parts of the reply."""
    calls = (look, ring, send, write)
    sources = [call.source for call in calls]
    if None in sources:
        raise ValueError("only calls of scripts can be made one")
    requests = [_request(call) for call in calls]
    script = register(look.client, in_step(*(str(source) for source in sources)))
    keys = [key for request in requests for key in request[0]]
    counts = [len(part) for request in requests for part in request]
    args = [*counts, mark, *(one for request in requests for one in request[1])]
    return script.call(keys, args, lambda reply: answer(reply[0], reply[1]), raw=write.raw, ack=write.ack)


def _request(call: Call) -> tuple[list[str], list[str | int | float | bytes]]:
    count = int(call.command[2])
    return [str(one) for one in call.command[3 : 3 + count]], list(call.command[3 + count :])
