# Generated from tests/redis_async/test_codecs.py by twin.py. Edit that file.
"""Codecs in the stores: what is recorded, what ties, what one codec makes of another's records, and typed steps."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any
from uuid import uuid4

import msgspec
import pytest
from durably.embedded import EmbeddedServer
from durably.exact import difference
from durably_redis_sync import (
    Completed,
    JsonCodec,
    LuaEffect,
    MemoryCheckpointer,
    MsgpackCodec,
    MsgspecCodec,
    RedisCheckpointer,
    Run,
    Undecodable,
    Unencodable,
    as_type,
    claimed,
    resume,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import same
from support_sync import Redis
from values import atoms, nested

CODECS: dict[str, Any] = {
    "json": JsonCodec(strict=True),
    "msgspec": MsgspecCodec(),
    "msgpack": MsgpackCodec(),
}
VALUES: list[Any] = [None, False, 0, "", [], {}, 1.5, -7, "é😀", [1, [2, {"a": None}]], {"b": 1, "a": [True]}]


class Receipt(msgspec.Struct):
    amount: int
    at: datetime
    tags: set[str] = set()


PAID = Receipt(5, datetime(2026, 1, 1, tzinfo=timezone.utc), {"b", "a"})


@pytest.fixture(params=list(CODECS))
def codec(request: pytest.FixtureRequest) -> Any:
    return CODECS[request.param]


@pytest.fixture(params=["memory", "redis", "redis, bytes"])
def store(request: pytest.FixtureRequest, server: EmbeddedServer, namespace: str, codec: Any) -> Any:
    """Each store with each codec; with a codec of bytes also on a client that decodes nothing."""
    if request.param == "memory":
        yield MemoryCheckpointer(codec)
        return
    decodes = request.param == "redis" or not isinstance(codec, MsgpackCodec)
    client = Redis.from_url(server.url, decode_responses=decodes)
    yield RedisCheckpointer(client, namespace, codec=codec)
    client.close()


def test_every_way_in_gives_the_value_back(store: Any) -> None:
    holder = claimed(store, "w")
    for n, value in enumerate(VALUES):
        assert (store.record(holder, f"r{n}", value)).value == value
        assert store.supply("w", f"s{n}", value) == value
        assert (store.append("w", value)).value == value
    loaded = store.load("w")
    assert [loaded[f"r{n}"] for n in range(len(VALUES))] == VALUES
    assert [loaded[f"s{n}"] for n in range(len(VALUES))] == VALUES
    assert [value for key, value in loaded.items() if key.startswith("inbox:")] == VALUES
    history = store.history("w")
    assert [history[f"r{n}"].value for n in range(len(VALUES))] == VALUES


def test_a_tie_is_a_win_for_both_and_a_loser_is_told_what_stands(store: Any) -> None:
    holder = claimed(store, "w")
    assert (store.record(holder, "a", {"x": 1, "y": [2]})).first
    again = store.record(holder, "a", {"y": [2], "x": 1})
    assert again.first and again.value == {"x": 1, "y": [2]}
    lost = store.record(holder, "a", {"x": 2})
    assert not lost.first and lost.value == {"x": 1, "y": [2]}
    assert store.supply("w", "a", 5) == {"x": 1, "y": [2]}


def test_what_cannot_come_back_is_refused_before_anything_is_written(store: Any) -> None:
    holder = claimed(store, "w")
    for value in ((1, 2), {"a": {1}}, float("nan"), [object()]):
        with pytest.raises(Unencodable, match="step 'a' in workflow 'w'"):
            store.record(holder, "a", value)
        with pytest.raises(Unencodable):
            store.append("w", value)
    assert store.load("w") == {}


def test_a_value_that_is_too_large_is_refused_with_its_size(store: Any) -> None:
    assert store.max_bytes == 1 << 20
    holder = claimed(store, "w")
    with pytest.raises(Unencodable, match=r"step 'a'.*10485\d\d bytes.*max_bytes=1048576"):
        store.record(holder, "a", "x" * (1 << 20))
    store.max_bytes = 10
    with pytest.raises(Unencodable, match="max_bytes=10"):
        store.supply("w", "a", "é" * 6)
    store.max_bytes = None
    assert store.supply("w", "a", "x" * (2 << 20))
    for bad in (0, True, 1.5):
        with pytest.raises(ValueError, match="max_bytes"):
            MemoryCheckpointer(max_bytes=bad)  # type: ignore[arg-type]


@pytest.mark.parametrize("reader", list(CODECS))
@pytest.mark.parametrize("writer", list(CODECS))
def test_another_codecs_record_is_an_error_that_names_both(
    redis: Redis, namespace: str, writer: str, reader: str
) -> None:
    wrote = RedisCheckpointer(redis, namespace, codec=CODECS[writer])
    reads = RedisCheckpointer(redis, namespace, codec=CODECS[reader])
    wrote.supply("w", "a", {"x": 1})
    if (writer == "msgpack") == (reader == "msgpack"):
        assert reads.load("w") == {"x": 1} or reads.load("w") == {"a": {"x": 1}}
        return
    for call in (reads.load, reads.history):
        with pytest.raises(Undecodable, match="'a'.*'w'") as caught:
            call("w")
        text = str(caught.value)
        assert type(CODECS[reader]).__name__ in text
        assert ("MsgpackCodec" if writer == "msgpack" else "JSON") in text
    with pytest.raises(Undecodable):
        reads.record(claimed(reads, "w"), "a", 1)


def test_effects_return_what_the_codec_reads(server: EmbeddedServer, namespace: str) -> None:
    for decodes in (True, False):
        client = Redis.from_url(server.url, decode_responses=decodes)
        store = RedisCheckpointer(client, f"{namespace}{decodes}", codec=MsgpackCodec())
        effect = LuaEffect("return cmsgpack.pack({a = 1, b = {1, 2}})")
        for _ in range(2):
            holder = claimed(store, "w")
            assert store.transact(holder, "e", effect) == {"a": 1, "b": [1, 2]}
            store.release(holder)
        with pytest.raises(TypeError, match="cmsgpack"):
            store.transact(claimed(store, "w"), "f", LuaEffect("return ''"))
        assert store.load("w") == {"e": {"a": 1, "b": [1, 2]}}
        client.close()


def once(store: Any, body: Any) -> Any:
    holder = claimed(store, "w")
    try:
        return resume(holder, store, body)
    finally:
        store.release(holder)


def test_a_typed_step_gives_its_type_first_and_on_every_replay(store: Any) -> None:
    runs: list[int] = []

    def charge() -> Receipt:
        runs.append(1)
        return PAID

    def raw() -> object:
        return {"amount": 5, "at": "2026-01-01T00:00:00Z", "tags": ["a", "b"]}

    def body(run: Run) -> object:
        first = run.step("charged", charge, Receipt)
        second = run.step("raw", raw, Receipt)
        many = run.step("many", charge, as_type(Receipt))
        approved = run.awaiting("approved", int)
        mail = run.receive("mail", type=Receipt)
        more = run.pending("more", after=mail[-1].key, type=int)
        return [first, second, many, approved, [one.value for one in mail], more]

    store.supply("w", "approved", 7)
    store.append("w", {"amount": 5, "at": "2026-01-01T00:00:00Z", "tags": ["a", "b"]})
    for _ in range(2):
        assert once(store, body) == Completed([PAID, PAID, PAID, 7, [PAID], ()])
    assert len(runs) == 2


def test_a_value_that_is_not_of_its_type_names_step_and_path(store: Any) -> None:
    def charge() -> object:
        return {"amount": "five", "at": "2026-01-01T00:00:00Z"}

    def body(run: Run) -> object:
        return run.step("charged", charge, Receipt)

    with pytest.raises(Unencodable, match=r"'charged'.*\$\.amount"):
        once(store, body)
    assert store.load("w") == {}
    store.supply("w", "charged", {"amount": "five", "at": "2026-01-01T00:00:00Z"})
    with pytest.raises(Undecodable, match=r"'charged' of workflow 'w'.*\$\.amount"):
        once(store, body)


def test_a_failing_parse_says_which_step(store: Any) -> None:
    def charge() -> object:
        return 5

    def parse(value: object) -> object:
        raise LookupError("no")

    def body(run: Run) -> object:
        return run.step("charged", charge, parse)

    with pytest.raises(LookupError) as caught:
        once(store, body)
    assert caught.value.__notes__ == ["while parsing step 'charged' of workflow 'w'"]


@pytest.mark.parametrize("kind", [MsgspecCodec, MsgpackCodec])
def test_a_codec_with_types_for_steps_carries_them_as_they_are(
    redis: Redis, namespace: str, kind: Any
) -> None:
    codec = kind(steps={"charged": Receipt, "mail": Receipt})
    for store in (MemoryCheckpointer(codec), RedisCheckpointer(redis, namespace, codec=codec)):

        def charge() -> Receipt:
            return PAID

        def body(run: Run) -> object:
            return [run.step("charged", charge, Receipt), run.step("charged 2", charge, Receipt)]

        for _ in range(2):
            assert once(store, body) == Completed([PAID, PAID])
        assert (store.load("w"))["charged"] == PAID

        def wrong(run: Run) -> object:
            return run.step("charged", charge, int)

        with pytest.raises(Undecodable, match="'charged'.*int"):
            once(store, wrong)


def test_an_effect_of_the_other_flavour_is_told_so(store: Any) -> None:
    from support_sync import other_flavours

    def body(run: Run) -> object:
        return run.step("a", other_flavours, same)

    with pytest.raises(TypeError, match="step 'a'"):
        once(store, body)
    with pytest.raises(TypeError, match="a body"):
        once(store, other_flavours)
    assert store.load("w") == {}


@settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(values=st.lists(nested(atoms, hostile=True), min_size=20, max_size=30))
def test_any_value_comes_back_from_a_store_or_is_refused(store: Any, values: list[Any]) -> None:
    workflow = uuid4().hex
    holder = claimed(store, workflow)
    kept: dict[str, object] = {}
    for n, value in enumerate(values):
        try:
            recorded = store.record(holder, f"s{n}", value)
        except Unencodable as error:
            assert f"'s{n}'" in str(error)
            continue
        assert recorded.first and difference(value, recorded.value) is None
        assert (store.record(holder, f"s{n}", value)).first
        kept[f"s{n}"] = value
    loaded = store.load(workflow)
    assert list(loaded) == list(kept)
    assert all(difference(value, loaded[key]) is None for key, value in kept.items())
