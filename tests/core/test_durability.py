"""The levels, the commands that ask for them, and what their replies say: no server."""

from __future__ import annotations

import pytest
from durably.durability import Ack, check_durability, check_replicas, unsynced


def test_what_is_asked_once_for_many_is_equal_whatever_it_is_of() -> None:
    assert Ack("replicas", 1, 300, "w", "a") == Ack("replicas", 1, 300, "x", "b")
    assert len({Ack("replicas", 1, 300, "w", "a"), Ack("replicas", 1, 300), Ack("disk", 1, 300)}) == 2
    assert Ack("replicas", 2, 300).command == ("WAIT", 2, 300)
    assert Ack("disk", 0, 300).command == ("WAITAOF", 1, 0, 300)
    assert Ack("replicas", 2, 300).trial == ("WAIT", 0, 1)
    assert Ack("disk", 2, 300).trial == ("WAITAOF", 1, 0, 1)


@pytest.mark.parametrize(
    ("ack", "reply", "reached"),
    [
        (Ack("replicas", 1, 300), 1, None),
        (Ack("replicas", 1, 300), 3, None),
        (Ack("replicas", 2, 300), 1, "1 replica of 2"),
        (Ack("replicas", 1, 300), 0, "0 replicas of 1"),
        (Ack("replicas", 1, 300), ValueError("no such command"), "the server says: no such command"),
        (Ack("disk", 0, 300), [1, 0], None),
        (Ack("disk", 0, 300), [0, 2], "not on this server's disk"),
        (Ack("disk", 1, 300), [1, 0], "on this server's disk, 0 replicas of 1"),
        (Ack("disk", 1, 300), [0, 1], "not on this server's disk, 1 replica of 1"),
        (Ack("disk", 1, 300), [1, 1], None),
    ],
)
def test_what_a_reply_lacks(ack: Ack, reply: object, reached: str | None) -> None:
    missing = ack.missing(reply)
    assert (None if missing is None else missing.reached) == reached


def test_an_error_says_whose_write_it_was_and_what_was_asked() -> None:
    error = Ack("disk", 1, 1500, "w", "a").missing([0, 0])
    assert error is not None and (error.workflow, error.key) == ("w", "a")
    assert error.asked == "this server's disk and 1 replica within 1.5 s"
    assert "'a' of workflow 'w' is recorded, but not acknowledged" in str(error)


def test_levels_and_numbers_are_checked() -> None:
    assert check_durability("disk") == "disk"
    with pytest.raises(ValueError):
        check_durability("tape")  # type: ignore[arg-type]
    assert [check_replicas(None, level) for level in ("memory", "replicas", "disk")] == [0, 1, 0]
    assert check_replicas(0, "disk") == 0
    for replicas, level in ((0, "replicas"), (-1, "disk"), (True, "replicas"), (1.5, "disk")):
        with pytest.raises(ValueError):
            check_replicas(replicas, level)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("info", "setting", "why"),
    [
        ({"aof_enabled": 0, "redis_version": "8.0.2"}, "always", "appendonly no"),
        ({}, None, "appendonly no"),
        ({"aof_enabled": 1, "redis_version": "8.0.2"}, "always", None),
        ({"aof_enabled": 1, "redis_version": "8.0.2"}, "everysec", None),
        ({"aof_enabled": "1", "redis_version": "7.2.4"}, None, None),
        ({"aof_enabled": 1, "redis_version": "8.0.2"}, "no", "appendfsync no"),
        ({"aof_enabled": 1, "redis_version": "7.4.1"}, "everysec", "before the file is synced"),
        ({"aof_enabled": 1, "redis_version": "7.4.1"}, "always", None),
        ({"aof_enabled": 1, "redis_version": "7.2.4", "valkey_version": "9.1.2"}, "everysec", "Valkey 9.1.2"),
        ({"aof_enabled": 1, "redis_version": "7.2.4", "valkey_version": "9.1.2"}, None, "may not be read"),
        ({"aof_enabled": 1, "redis_version": "7.2.4", "valkey_version": "9.1.2"}, "always", None),
    ],
)
def test_where_the_disk_would_be_an_empty_promise(
    info: dict[str, object], setting: str | None, why: str | None
) -> None:
    found = unsynced(info, setting)
    assert found is None if why is None else found is not None and why in found
