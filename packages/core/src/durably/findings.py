"""What a server can lose, in plain words: findings from what it says of itself. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from durably.durability import unsynced

Severity = Literal["danger", "warning", "note"]
"""`"danger"`: it loses, or refuses, what workflows need. `"warning"`: it may. `"note"`: good to know."""

_ORDER: tuple[Severity, ...] = ("danger", "warning", "note")

LAG = 10
"""How long a replica may be silent, in seconds."""

FULL, TIGHT = 0.9, 0.75
"""How much of the memory may be in use."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to know about a server: `what` it is, `why` it matters, and what to do (`advice`)."""

    severity: Severity
    what: str
    why: str
    advice: str

    def __str__(self) -> str:
        return f"{self.severity}: {self.what}. {self.why}. {self.advice}."


def findings(info: Mapping[str, Any], config: Mapping[str, str] | None) -> list[Finding]:
    """What to know about a server, the most serious first.

    `info`: what INFO says. `config`: what CONFIG GET says, `None` where the server does not let it be read.
    """
    found = [
        *_who(info),
        *_memory(info),
        *_persistence(info, config),
        *_disk(info, config),
        *_replication(info, config),
    ]
    if config is None:
        found.append(
            Finding(
                "note",
                "the server's settings may not be read (CONFIG GET is refused)",
                "Snapshots, appendfsync and min-replicas-to-write are not looked at",
                "Look them up where the server is managed, or let this user run CONFIG GET",
            )
        )
    return sorted(found, key=lambda one: _ORDER.index(one.severity))


def version(info: Mapping[str, Any]) -> tuple[str, tuple[int, ...]]:
    """The server's name, and its own version as numbers. Valkey also says which Redis it is compatible with."""
    valkey = str(info.get("valkey_version", ""))
    text = valkey or str(info.get("redis_version", "0"))
    numbers = tuple(int(one) for one in text.split(".")[:3] if one.isdigit())
    return ("Valkey" if valkey else "Redis"), numbers


def _who(info: Mapping[str, Any]) -> Iterator[Finding]:
    name, numbers = version(info)
    text = ".".join(map(str, numbers))
    if name == "Redis" and numbers < (6, 2):
        yield Finding(
            "danger",
            f"this is Redis {text}",
            "Commands that the scripts use came with 6.2",
            "Take Redis 6.2 or newer, or Valkey 8 or newer",
        )
    if name == "Valkey" and numbers < (8,):
        yield Finding("note", f"this is Valkey {text}", "Nothing is tried on it", "Take Valkey 8 or newer")
    if info.get("role") == "slave":
        yield Finding(
            "danger",
            "this server is a replica",
            "It refuses writes, or loses them when its master next copies itself",
            "Connect to the master, through Sentinel if there is one",
        )
    if int(info.get("cluster_enabled", 0)):
        yield Finding(
            "note",
            "this server is a node of a cluster",
            "Each node fails over by itself, and the keys of a workflow and of a queue are on different nodes",
            "Use SplitDurable, and give every node the same settings",
        )
    if int(info.get("loading", 0)):
        yield Finding(
            "warning",
            "the server is loading its data",
            "It refuses calls until it has them",
            "Look again when it is done",
        )


def _memory(info: Mapping[str, Any]) -> Iterator[Finding]:
    most, used = int(info.get("maxmemory", 0)), int(info.get("used_memory", 0))
    policy = str(info.get("maxmemory_policy", "noeviction"))
    if policy != "noeviction":
        why = "Records, claims and queues are dropped without a word"
        if policy.startswith("volatile"):
            why = "Records and claims carry an expiry, so they are among what is dropped without a word"
        yield Finding(
            "danger" if most else "warning",
            f"when memory is full, keys are evicted (maxmemory-policy {policy})",
            why + ("" if most else ", as soon as somebody sets a maxmemory"),
            "Set maxmemory-policy noeviction, and give caches a server of their own",
        )
    if most:
        share = used / most
        if share >= TIGHT:
            yield Finding(
                "danger" if share >= FULL else "warning",
                f"{share:.0%} of maxmemory is in use",
                "When it is full, steps can no longer be recorded nor workflows started",
                "Raise maxmemory, shorten ttl, or trim the stream",
            )
    else:
        total = int(info.get("total_system_memory", 0))
        tight = total > 0 and used / total >= TIGHT
        yield Finding(
            "warning" if tight else "note",
            "there is no maxmemory"
            + (f", and {used / total:.0%} of the machine's is in use" if tight else ""),
            "A server that outgrows its machine is ended by the system, where it could have refused a write",
            "Set maxmemory below what the machine has, with room for a snapshot's copy",
        )


def _persistence(info: Mapping[str, Any], config: Mapping[str, str] | None) -> Iterator[Finding]:
    saves = None if config is None else config.get("save", "")
    if not int(info.get("aof_enabled", 0)):
        if saves == "":
            yield Finding(
                "danger",
                "nothing is kept on disk: neither snapshots nor an append-only file",
                "A restart loses every workflow",
                "Set appendonly yes",
            )
        else:
            every = "" if saves is None else f" (save {saves})"
            yield Finding(
                "warning",
                f"there is no append-only file, at most snapshots{every}",
                "A crash loses every step since the last one; its effects run again",
                "Set appendonly yes",
            )
    else:
        yield from _syncs(info, config)
    failed = str(info.get("rdb_last_bgsave_status", "ok")) != "ok"
    stops = None if config is None else config.get("stop-writes-on-bgsave-error")
    if failed:
        yield Finding(
            "danger",
            "the last snapshot failed",
            "Nothing newer is kept in it"
            + (", and the server refuses writes until one succeeds" if stops == "yes" and saves else ""),
            "Look at the server's log, its disk and its memory",
        )
    elif saves and stops == "no":
        yield Finding(
            "warning",
            "a snapshot that fails changes nothing (stop-writes-on-bgsave-error no)",
            "The server goes on as if its data were kept",
            "Watch rdb_last_bgsave_status, or set it to yes",
        )
    elif saves and stops == "yes":
        yield Finding(
            "note",
            "a snapshot that fails stops all writes (stop-writes-on-bgsave-error yes)",
            "Every step then fails with MISCONF until one succeeds",
            "Watch rdb_last_bgsave_status and the disk's free space",
        )


def _syncs(info: Mapping[str, Any], config: Mapping[str, str] | None) -> Iterator[Finding]:
    setting = None if config is None else config.get("appendfsync")
    if str(info.get("aof_last_write_status", "ok")) != "ok":
        yield Finding(
            "danger",
            "the last write to the append-only file failed",
            "The server refuses writes, or keeps none of them",
            "Look at the server's log and its disk",
        )
    if str(info.get("aof_last_bgrewrite_status", "ok")) != "ok":
        yield Finding(
            "warning",
            "the last rewrite of the append-only file failed",
            "The file grows without end",
            "Look at the server's log, its disk and its memory",
        )
    if setting == "everysec":
        yield Finding(
            "note",
            "the append-only file is synced every second (appendfsync everysec)",
            "A crash of the process loses nothing, one of the machine up to two seconds",
            "Ask for durability where that matters, or set appendfsync always",
        )
    if setting == "no":
        yield Finding(
            "warning",
            "the append-only file is synced when the system likes (appendfsync no)",
            "A crash of the machine loses up to half a minute",
            "Set appendfsync everysec or always",
        )
    if config is not None and config.get("no-appendfsync-on-rewrite") == "yes":
        yield Finding(
            "warning",
            "the append-only file is not synced during a rewrite (no-appendfsync-on-rewrite yes)",
            "A crash of the machine meanwhile loses all of it",
            "Set it to no",
        )


def _disk(info: Mapping[str, Any], config: Mapping[str, str] | None) -> Iterator[Finding]:
    name, numbers = version(info)
    if name == "Redis" and numbers < (7, 2):
        why: str | None = "WAITAOF came with 7.2"
    else:
        why = unsynced(info, None if config is None else config.get("appendfsync"))
    if why is not None:
        yield Finding(
            "note",
            'durability="disk" is refused here',
            f"The reason: {why}",
            'Put that right if you want it, or use durability="replicas"',
        )


def _replication(info: Mapping[str, Any], config: Mapping[str, str] | None) -> Iterator[Finding]:
    if info.get("role") == "slave":
        return
    count = int(info.get("connected_slaves", 0))
    if not count:
        yield Finding(
            "warning",
            "there is no replica",
            'Whoever loses the machine loses the workflows, and durability="replicas" is never acknowledged',
            "Add one, or keep copies of the append-only file elsewhere",
        )
        return
    for number in range(count):
        one = info.get(f"slave{number}")
        if not isinstance(one, Mapping):
            continue
        where = f"{one.get('ip')}:{one.get('port')}"
        state, lag = str(one.get("state", "online")), int(one.get("lag", 0))
        if state != "online" or lag > LAG:
            yield Finding(
                "warning",
                f"the replica {where} lags ({state}, silent for {lag} s)",
                "A failover to it loses what it has not got",
                "Look at its log and at the network",
            )
    least = None if config is None else config.get("min-replicas-to-write", config.get("min-slaves-to-write"))
    if least == "0":
        yield Finding(
            "note",
            "the master accepts writes without its replicas (min-replicas-to-write 0)",
            "One that is cut off goes on accepting what a failover then loses",
            'Set it to 1, or ask for durability="replicas" where that matters',
        )
