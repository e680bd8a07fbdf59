"""The redis-py classes of this flavour, and how calls are sent with them. Written by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from weakref import finalize, ref

from durably.durability import Ack
from durably.keys import tag_of
from durably.signals import NotDurable
from redis.asyncio import Redis
from redis.client import NEVER_DECODE
from redis.crc import key_slot
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoScriptError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from durably_redis_async._cluster import (
    ELSEWHERE,
    UNSETTLED,
    RedisCluster,
    node_of,
    on_one_node,
    prepared,
    relearn,
)
from durably_redis_async._gathering import Gathering
from durably_redis_async._patience import AnyRedis, is_cluster, is_passing, patiently
from durably_redis_async._transport import Transport, exchange, is_lean, use_transport
from durably_redis_async.calls import Call, Script, in_one_script, in_one_step, register
from durably_redis_async.settings import options_of, same_database, socket_timeout

__all__ = [
    "AnyRedis",
    "Call",
    "Redis",
    "RedisConnectionError",
    "RedisTimeoutError",
    "ResponseError",
    "Script",
    "Transport",
    "attempt_alone",
    "check_client",
    "check_slot",
    "everywhere",
    "in_one_script",
    "in_one_step",
    "is_cluster",
    "patiently",
    "register",
    "same_database",
    "send",
    "send_together",
    "socket_timeout",
    "use_transport",
]


async def send(call: Call) -> Any:
    """The answer of one call. Raises what the server, the connection or the answer raises."""
    acks = call.ack is not None
    gathering = _single(call.client, acks) or await _of_node(call, acks)
    reply = (await gathering.say([call]))[0]
    if isinstance(reply, Exception):
        raise reply
    return call.answer(reply)


async def send_together(calls: Sequence[Call]) -> list[object]:
    """The answers of all calls, each client's (each node's) in one round trip and in their order.

    An error of the server, or of making an answer, stands in the answer's place. Raises what the connection raises.
    What turns out to be no text, where text was expected, is read again as bytes.
    """
    acks = any([call.ack is not None for call in calls])
    clients = {id(call.client) for call in calls}
    shared = _single(calls[0].client, acks) if len(clients) == 1 else None
    if shared is not None:
        replies = await shared.say(list(calls))
        return [_answered(call, reply) for call, reply in zip(calls, replies, strict=True)]
    answers: list[object] = [None] * len(calls)
    parts: dict[Gathering[list[Call], list[Any]], list[int]] = {}
    for n, call in enumerate(calls):
        gathering = _single(call.client, acks) or await _of_node(call, acks)
        parts.setdefault(gathering, []).append(n)
    for gathering, mine in parts.items():
        replies = await gathering.say([calls[n] for n in mine])
        for n, reply in zip(mine, replies, strict=True):
            answers[n] = _answered(calls[n], reply)
    return answers


def _answered(call: Call, reply: Any) -> object:
    """What is made of a reply, or the error that stands in its place."""
    if isinstance(reply, Exception):
        return reply
    try:
        answer: object = call.answer(reply)
    except Exception as error:
        return error
    return answer


class _Lanes:
    """Where calls of one client are sent together, by node of a cluster: those that are answered at once, and those
    that wait for acknowledgements. None waits for another's."""

    def __init__(self, client: AnyRedis) -> None:
        self.client = ref(client)
        self.of: tuple[dict[str, Gathering[list[Call], list[Any]]], ...] = ({}, {})
        for nodes in self.of:
            nodes[""] = Gathering(_flush)


_lanes: dict[int, _Lanes] = {}


def _lanes_of(client: AnyRedis) -> _Lanes:
    key = id(client)
    found = _lanes.get(key)
    if found is None or found.client() is not client:
        found = _lanes[key] = _Lanes(client)
        finalize(client, _lanes.pop, key, None).atexit = False
    return found


def _single(client: AnyRedis, acks: bool) -> Gathering[list[Call], list[Any]] | None:
    """Where calls to a single server are sent together; `None` for a cluster, where each has its node."""
    return None if is_cluster(client) else _lanes_of(client).of[acks][""]


async def _of_node(call: Call, acks: bool) -> Gathering[list[Call], list[Any]]:
    """Where `call` is sent together with others of its node of a cluster."""
    client: Any = call.client
    nodes = _lanes_of(client).of[acks]

    async def name(client: RedisCluster = client) -> str:
        return str((await node_of(client, call.key)).name)

    node = await patiently(client, name)
    found = nodes.get(node)
    if found is None:
        found = nodes.setdefault(node, Gathering(_flush))
    return found


async def _flush(groups: list[list[Call]]) -> list[list[Any]]:
    """The replies of groups of calls on one client (and node), in one round trip; errors of the server among them."""

    client = groups[0][0].client

    async def attempt() -> list[list[Any]]:
        calls = [call for group in groups for call in group]
        if len(calls) == 1 and not is_cluster(client) and not is_lean(client):
            return [[await _caught(calls[0], calls[0].command)]]
        try:
            replies = await _pipelined(calls)
        except UnicodeDecodeError:
            return [await _one_by_one(group) for group in groups]
        found, start = [], 0
        for group in groups:
            found.append(replies[start : start + len(group)])
            start += len(group)
        if any([isinstance(reply, Exception) for reply in replies]):
            again: tuple[type[Exception], ...] = (NoScriptError,)
            if is_cluster(client):
                again += UNSETTLED
            for n, group in enumerate(groups):
                if any(isinstance(reply, again) for reply in found[n]):
                    # all of it again, in order: what comes after a script may build on it
                    found[n] = await _one_by_one(group)
        return found

    async def standing() -> list[list[Any]]:
        found = await attempt()
        for reply in (one for group in found for one in group):
            if isinstance(reply, ResponseError) and is_passing(client, reply):
                raise reply
        return found

    return await patiently(client, standing)


async def attempt_alone(calls: Sequence[Call]) -> list[Any]:
    """The replies of calls on one server that may wait there: sent once, together, on a connection of their own, in
    order; errors of the server among them. Raises what the connection raises: to be used within `patiently`."""
    client = calls[0].client
    if len(calls) == 1 and not is_cluster(client) and not is_lean(client):
        return [await _caught(calls[0], calls[0].command)]
    replies = await _pipelined(calls)
    if is_cluster(client) and any(isinstance(reply, UNSETTLED) for reply in replies):
        return await _one_by_one(list(calls))
    return replies


async def _one_by_one(group: list[Call]) -> list[Any]:
    return [await _caught(call, _whole(call)) for call in group]


def _whole(call: Call) -> tuple[str | int | float | bytes, ...]:
    return call.command if call.source is None else ("EVAL", call.source, *call.command[2:])


async def _one(call: Call, command: tuple[str | int | float | bytes, ...], raw: bool) -> Any:
    if call.ack is not None:
        return (await _pipelined([replace(call, command=command, raw=raw)], raises=True))[0]
    sending: Any = call.client
    options: dict[str, Any] = {NEVER_DECODE: True} if raw else {}
    if call.at is not None and is_cluster(call.client):
        options["target_nodes"] = await node_of(call.client, call.at)
    return await sending.execute_command(*command, **options)


async def _caught(call: Call, command: tuple[str | int | float | bytes, ...]) -> Any:
    try:
        return await _one(call, command, call.raw)
    except NoScriptError:
        return await _caught(call, _whole(call))
    except (ResponseError, NotDurable) as error:
        if is_cluster(call.client) and isinstance(error, UNSETTLED):
            raise
        return error
    except UnicodeDecodeError:
        return await _one(call, command, True)


async def _pipelined(calls: Sequence[Call], *, raises: bool = False) -> list[Any]:
    """The replies of calls on one connection; one whose write was not acknowledged as asked has that for its reply."""
    client = calls[0].client
    asked = list(dict.fromkeys([call.ack for call in calls if call.ack is not None]))
    if is_lean(client):
        commands = [call.command for call in calls] + [ack.command for ack in asked]
        raws = [call.raw for call in calls] + [False for _ in asked]
        replies = await exchange(client, commands, raws)
        return replies if not asked and not raises else _with_acks(calls, asked, replies, raises)
    queued: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        (call.command, {NEVER_DECODE: True} if call.raw else {}) for call in calls
    ]
    queued += [(ack.command, {}) for ack in asked]
    if is_cluster(client):
        try:
            replies = await on_one_node(client, calls[0].key, queued)
        except (RedisConnectionError, RedisTimeoutError):
            await relearn(client, calls[0].key)
            raise
        if any(isinstance(reply, ELSEWHERE) for reply in replies):
            await relearn(client, calls[0].key)
    else:
        async with client.pipeline(transaction=False) as pipe:
            sending: Any = pipe
            for words, options in queued:
                sending.execute_command(*words, **options)
            replies = await pipe.execute(raise_on_error=False)
    return _with_acks(calls, asked, replies, raises)


def _with_acks(calls: Sequence[Call], asked: list[Ack], replies: list[Any], raises: bool) -> list[Any]:
    said = dict(zip(asked, replies[len(calls) :], strict=True))
    return [_acknowledged(call, reply, said, raises) for call, reply in zip(calls, replies, strict=False)]


def _acknowledged(call: Call, reply: Any, said: dict[Ack, Any], raises: bool) -> Any:
    if call.ack is not None and not isinstance(reply, Exception):
        reply = call.ack.missing(said[call.ack]) or reply
    if raises and isinstance(reply, Exception):
        raise reply
    return reply


async def everywhere(client: AnyRedis, *words: str) -> dict[str, Any]:
    """The reply of each server to a command without keys: by name of the masters of a cluster, by `""` of a single one."""
    asked: Any = client
    if not is_cluster(client):
        return {"": await patiently(client, lambda: asked.execute_command(*words))}
    await patiently(client, lambda: prepared(client))
    replies: dict[str, Any] = {}
    for node in asked.get_primaries():

        async def ask(node: Any = node) -> Any:
            return await asked.execute_command(*words, target_nodes=[node])

        said = await patiently(client, ask)
        replies[node.name] = said[node.name] if isinstance(said, dict) and node.name in said else said
    return replies


def check_client(client: AnyRedis, *, text: bool = True) -> AnyRedis:
    """Return `client`, or raise: `TypeError` for a client of another kind, `ValueError` for one that reads bytes or
    asks sentinels for replicas.

    `text`: whether text is to be read.
    """
    if not isinstance(client, (Redis, RedisCluster)):
        raise TypeError(
            "a redis.asyncio.Redis or redis.asyncio.RedisCluster client is needed here, "
            f"not {type(client).__module__}.{type(client).__name__}"
        )
    if text and not options_of(client).get("decode_responses"):
        raise ValueError("build the client with decode_responses=True: these stores read text")
    if not getattr(getattr(client, "connection_pool", None), "is_master", True):
        raise ValueError("ask the sentinels for the master (master_for): a replica takes no writes")
    return client


def check_slot(client: AnyRedis, home: str, keys: Sequence[str], workflow: str, what: str) -> None:
    """On a cluster, raise a `ValueError` naming the first of `keys` that is in another slot than `home`."""
    if not is_cluster(client):
        return
    slot = key_slot(home.encode())
    for key in keys:
        if key_slot(str(key).encode()) != slot:
            raise ValueError(
                f"the key {key!r} of {what} is in another slot of the cluster than workflow {workflow!r}, "
                f"whose records it is written with: give it the workflow's tag, for example {key + tag_of(home)!r}"
            )
