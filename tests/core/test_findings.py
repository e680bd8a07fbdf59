"""What is found in what a server says of itself: no server."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from durably.findings import Finding, findings, version

GOOD: dict[str, Any] = {
    "redis_version": "8.2.1",
    "role": "master",
    "cluster_enabled": 0,
    "loading": 0,
    "used_memory": 10,
    "maxmemory": 100,
    "maxmemory_policy": "noeviction",
    "total_system_memory": 1000,
    "aof_enabled": 1,
    "aof_last_write_status": "ok",
    "aof_last_bgrewrite_status": "ok",
    "rdb_last_bgsave_status": "ok",
    "connected_slaves": 1,
    "slave0": {"ip": "10.0.0.2", "port": 6379, "state": "online", "offset": 1, "lag": 0},
}
SETTINGS = {
    "save": "",
    "appendfsync": "always",
    "no-appendfsync-on-rewrite": "no",
    "stop-writes-on-bgsave-error": "yes",
    "min-replicas-to-write": "1",
}


def found(info: dict[str, Any] | None = None, config: dict[str, str] | None = None) -> list[tuple[str, str]]:
    """Severity and first words of each finding about a good server that differs in this."""
    all_of_it = findings({**GOOD, **(info or {})}, {**SETTINGS, **(config or {})})
    return [(one.severity, one.what) for one in all_of_it]


def test_nothing_is_found_where_nothing_can_be_lost() -> None:
    assert found() == []


@pytest.mark.parametrize(
    ("info", "config", "severity", "what"),
    [
        ({"redis_version": "6.0.16"}, {}, "danger", "Redis 6.0.16"),
        ({"redis_version": "5.0"}, {}, "danger", "Redis 5.0"),
        ({"redis_version": "7.2.4", "valkey_version": "7.2.5"}, {}, "note", "Valkey 7.2.5"),
        ({"role": "slave"}, {}, "danger", "is a replica"),
        ({"cluster_enabled": 1}, {}, "note", "cluster"),
        ({"loading": 1}, {}, "warning", "loading"),
        ({"maxmemory_policy": "allkeys-lru"}, {}, "danger", "allkeys-lru"),
        ({"maxmemory_policy": "volatile-ttl"}, {}, "danger", "volatile-ttl"),
        ({"maxmemory_policy": "allkeys-lru", "maxmemory": 0}, {}, "warning", "allkeys-lru"),
        ({"used_memory": 74}, {}, None, ""),
        ({"used_memory": 75}, {}, "warning", "75% of maxmemory"),
        ({"used_memory": 95}, {}, "danger", "95% of maxmemory"),
        ({"maxmemory": 0}, {}, "note", "no maxmemory"),
        ({"maxmemory": 0, "used_memory": 800}, {}, "warning", "80% of the machine"),
        ({"maxmemory": 0, "total_system_memory": 0}, {}, "note", "no maxmemory"),
        ({"aof_enabled": 0}, {}, "danger", "nothing is kept on disk"),
        ({"aof_enabled": 0}, {"save": "3600 1"}, "warning", "at most snapshots (save 3600 1)"),
        ({}, {"appendfsync": "everysec"}, "note", "every second"),
        ({}, {"appendfsync": "no"}, "warning", "when the system likes"),
        ({}, {"no-appendfsync-on-rewrite": "yes"}, "warning", "during a rewrite"),
        ({"aof_last_write_status": "err"}, {}, "danger", "last write to the append-only file failed"),
        ({"aof_last_bgrewrite_status": "err"}, {}, "warning", "last rewrite"),
        ({"rdb_last_bgsave_status": "err"}, {}, "danger", "last snapshot failed"),
        ({}, {"save": "60 1"}, "note", "stops all writes"),
        ({}, {"save": "60 1", "stop-writes-on-bgsave-error": "no"}, "warning", "changes nothing"),
        ({"connected_slaves": 0}, {}, "warning", "no replica"),
        ({"slave0": {**GOOD["slave0"], "state": "wait_bgsave"}}, {}, "warning", "10.0.0.2:6379 lags"),
        ({"slave0": {**GOOD["slave0"], "lag": 11}}, {}, "warning", "silent for 11 s"),
        ({"slave0": {**GOOD["slave0"], "lag": 10}}, {}, None, ""),
        ({"slave0": "of some other shape"}, {}, None, ""),
        ({}, {"min-replicas-to-write": "0"}, "note", "min-replicas-to-write 0"),
        ({"redis_version": "7.0.15"}, {}, "note", 'durability="disk" is refused'),
        ({"aof_enabled": 0}, {}, "note", 'durability="disk" is refused'),
    ],
)
def test_each_thing_is_found_where_it_is_and_only_there(
    info: dict[str, Any], config: dict[str, str], severity: str | None, what: str
) -> None:
    those = found(info, config)
    if severity is None:
        assert those == []
    else:
        assert [one for one in those if one[0] == severity and what in one[1]], those


def test_why_says_what_follows() -> None:
    def why(info: dict[str, Any], config: dict[str, str], part: str) -> str:
        all_of_it = findings({**GOOD, **info}, {**SETTINGS, **config})
        return next(one.why for one in all_of_it if part in one.what)

    assert "carry an expiry" in why({"maxmemory_policy": "volatile-lru"}, {}, "evicted")
    assert "as soon as" in why({"maxmemory_policy": "allkeys-lru", "maxmemory": 0}, {}, "evicted")
    failed = {"rdb_last_bgsave_status": "err"}
    assert "refuses writes" in why(failed, {"save": "60 1"}, "snapshot failed")
    assert "refuses writes" not in why(failed, {}, "snapshot failed")
    assert "WAITAOF came with 7.2" in why({"redis_version": "6.2.14"}, {}, "disk")
    valkey = {"redis_version": "7.2.4", "valkey_version": "9.1.2"}
    assert "before the file is synced" in why(valkey, {"appendfsync": "everysec"}, "disk")


def test_settings_that_may_not_be_read_are_said_to_be_so() -> None:
    those = findings({**GOOD, "aof_enabled": 0}, None)
    assert [one.severity for one in those] == ["warning", "note", "note"]
    assert "CONFIG GET is refused" in those[-1].what


def test_a_server_that_says_nothing_is_no_reason_to_fail() -> None:
    those = findings({}, {})
    assert those[0].severity == "danger"
    assert findings({}, None)


def test_the_most_serious_comes_first_and_each_reads_as_a_sentence() -> None:
    bad = findings({**GOOD, "maxmemory": 0, "aof_enabled": 0, "connected_slaves": 0}, SETTINGS)
    assert [one.severity for one in bad] == ["danger", "warning", "note", "note"]
    assert str(bad[0]).startswith("danger: nothing is kept on disk") and str(bad[0]).endswith(".")
    one = Finding("note", "a", "b", "c")
    assert str(one) == "note: a. b. c."
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.what = "x"  # type: ignore[misc]


def test_valkey_goes_by_its_own_version() -> None:
    assert version({"redis_version": "7.2.4", "valkey_version": "9.1.2"}) == ("Valkey", (9, 1, 2))
    assert version({"redis_version": "7.2.4"}) == ("Redis", (7, 2, 4))
    assert version({"redis_version": "8.4-rc1"}) == ("Redis", (8,))
