# Generated from tests/redis_async/test_effects.py by twin.py. Edit that file.
"""What every store owes an effect that it runs itself, over memory and Redis, and through `Run.transact`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from durably_redis_sync import (
    Completed,
    EffectResultError,
    EffectTorn,
    Fenced,
    LuaEffect,
    MemoryCheckpointer,
    RedisCheckpointer,
    Run,
    claimed,
    resume,
)
from redis.exceptions import ResponseError
from support import ms
from support_sync import Redis


@dataclass
class Counting:
    """A store, a counter where the store is, and effects on it in the store's own manner."""

    store: Any
    count: Callable[[], Any]
    bump: Any
    fails_before: Any
    fails_after: Any


@pytest.fixture(params=["memory", "redis"])
def counting(request: pytest.FixtureRequest, redis: Redis, namespace: str) -> Counting:
    if request.param == "redis":
        key = f"{namespace}:{{w}}:count"

        def count() -> int:
            return int(redis.get(key) or 0)

        return Counting(
            RedisCheckpointer(redis, namespace),
            count,
            LuaEffect("return tostring(redis.call('INCR', KEYS[1]))", (key,)),
            LuaEffect("redis.call('GET', KEYS[1]) redis.call('HSET', KEYS[1]) return '1'", (key,)),
            LuaEffect("redis.call('INCR', KEYS[1]) redis.call('HSET', KEYS[1], 'a', 1) return '1'", (key,)),
        )
    runs: list[int] = []

    def count_runs() -> int:
        return len(runs)

    def bump() -> int:
        runs.append(1)
        return len(runs)

    def fails_before() -> int:
        raise LookupError("no")

    def fails_after() -> object:
        runs.append(1)
        return object()

    return Counting(MemoryCheckpointer(), count_runs, bump, fails_before, fails_after)


def number(value: object) -> int:
    assert isinstance(value, int)
    return value


def test_an_effect_runs_once_over_all_passes(counting: Counting) -> None:
    for _ in range(3):
        holder = claimed(counting.store, "w")
        assert counting.store.transact(holder, "e", counting.bump) == 1
        assert counting.store.transact(holder, "e", counting.bump) == 1
        counting.store.release(holder)
    assert counting.count() == 1
    assert counting.store.load("w") == {"e": 1}


def test_a_fenced_pass_runs_no_effect(counting: Counting) -> None:
    holder = claimed(counting.store, "w")
    counting.store.discard("w")
    with pytest.raises(Fenced):
        counting.store.transact(holder, "e", counting.bump)
    assert counting.count() == 0


def test_an_effect_that_fails_before_it_wrote_may_run_again(counting: Counting) -> None:
    holder = claimed(counting.store, "w")
    for _ in range(2):
        with pytest.raises(Exception) as caught:
            counting.store.transact(holder, "e", counting.fails_before)
        assert not isinstance(caught.value, EffectTorn)
    assert counting.store.transact(holder, "e", counting.bump) == 1


def test_a_torn_effect_says_so_to_every_pass_until_it_is_cleared(counting: Counting) -> None:
    for _ in range(3):
        holder = claimed(counting.store, "w")
        with pytest.raises(EffectTorn) as caught:
            counting.store.transact(holder, "e", counting.fails_after)
        assert "'w'" in str(caught.value) and "'e'" in str(caught.value)
        counting.store.release(holder)
    assert counting.count() == 1
    assert counting.store.load("w") == {}
    assert counting.store.clear_torn("w", "e")
    assert not counting.store.clear_torn("w", "e")
    holder = claimed(counting.store, "w")
    assert counting.store.transact(holder, "e", counting.bump) == 2


def test_a_winning_effect_is_a_sign_of_life_and_undoes_no_release(counting: Counting) -> None:
    holder = claimed(counting.store, "w", alive=ms(60_000))
    counting.store.release(holder)
    counting.store.transact(holder, "e", counting.bump)
    assert counting.store.claim("w") is not None


@pytest.mark.parametrize("key", ["", "inbox:1", 5])
def test_an_effects_step_name_is_checked(counting: Counting, key: Any) -> None:
    holder = claimed(counting.store, "w")
    with pytest.raises((ValueError, TypeError)):
        counting.store.transact(holder, key, counting.bump)
    assert counting.count() == 0


def test_a_body_transacts_once_and_replays_the_result(counting: Counting) -> None:
    def body(run: Run) -> int:
        return run.transact("e", counting.bump, number, within=ms(100))

    for _ in range(2):
        holder = claimed(counting.store, "w")
        assert resume(holder, counting.store, body) == Completed(1)
        counting.store.release(holder)
    assert counting.count() == 1


def test_a_body_that_lost_its_workflow_transacts_nothing(counting: Counting) -> None:
    def body(run: Run) -> int:
        counting.store.discard("w")
        return run.transact("e", counting.bump, number)

    with pytest.raises(Fenced):
        resume(claimed(counting.store, "w"), counting.store, body)
    assert counting.count() == 0


NAMES = "records pass step token ttl mark held stored reads marked wrote watch watched keys args ran result effect now_ms"


@pytest.mark.parametrize("name", NAMES.split())
def test_an_effect_reaches_no_name_of_the_script_around_it(redis: Redis, namespace: str, name: str) -> None:
    store = RedisCheckpointer(redis, namespace)
    counter = f"{namespace}:{{w}}:count"
    source = f"local n = redis.call('INCR', KEYS[1]) {name} = n return tostring(n)"
    for _ in range(2):
        holder = claimed(store, "w")
        with pytest.raises((ResponseError, EffectTorn)):
            store.transact(holder, "e", LuaEffect(source, (counter,)))
        store.release(holder)
    assert redis.get(counter) == "1"
    assert store.load("w") == {}


def test_an_effects_error_tells_its_own_line(redis: Redis, namespace: str) -> None:
    store = RedisCheckpointer(redis, namespace)
    effect = LuaEffect("local a = 1\nlocal b = nil\nreturn b.c")
    with pytest.raises(ResponseError, match="user_script:3:"):
        store.transact(claimed(store, "w"), "e", effect)


@pytest.mark.parametrize(
    "source",
    [
        "return 'hello'",
        "return '\\255'",
        "return '\"\\192\\128\"'",
        "return '\"\\237\\160\\128\"'",
        "return ''",
    ],
)
def test_a_result_that_no_pass_could_read_is_not_recorded(redis: Redis, namespace: str, source: str) -> None:
    store = RedisCheckpointer(redis, namespace)
    holder = claimed(store, "w")
    with pytest.raises(EffectResultError, match="'e'"):
        store.transact(holder, "e", LuaEffect(source))
    counter = f"{namespace}:{{w}}:count"
    with pytest.raises(EffectTorn):
        store.transact(holder, "f", LuaEffect(f"redis.call('INCR', KEYS[1]) {source}", (counter,)))
    assert store.load("w") == {}


def test_a_result_of_any_script_comes_back(redis: Redis, namespace: str) -> None:
    store = RedisCheckpointer(redis, namespace)
    holder = claimed(store, "w")
    for n, text in enumerate(["é", "日本", "😀", "a\x7f", ""]):
        effect = LuaEffect("return cjson.encode(ARGV[1])", (), (text,))
        assert store.transact(holder, f"e{n}", effect) == text
