"""What every store owes an effect that it runs itself, over memory and Redis, and through `Run.transact`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from durably_redis_async import (
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
from support_async import Redis


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

        async def count() -> int:
            return int(await redis.get(key) or 0)

        return Counting(
            RedisCheckpointer(redis, namespace),
            count,
            LuaEffect("return tostring(redis.call('INCR', KEYS[1]))", (key,)),
            LuaEffect("redis.call('GET', KEYS[1]) redis.call('HSET', KEYS[1]) return '1'", (key,)),
            LuaEffect("redis.call('INCR', KEYS[1]) redis.call('HSET', KEYS[1], 'a', 1) return '1'", (key,)),
        )
    runs: list[int] = []

    async def count_runs() -> int:
        return len(runs)

    async def bump() -> int:
        runs.append(1)
        return len(runs)

    async def fails_before() -> int:
        raise LookupError("no")

    async def fails_after() -> object:
        runs.append(1)
        return object()

    return Counting(MemoryCheckpointer(), count_runs, bump, fails_before, fails_after)


def number(value: object) -> int:
    assert isinstance(value, int)
    return value


async def test_an_effect_runs_once_over_all_passes(counting: Counting) -> None:
    for _ in range(3):
        holder = await claimed(counting.store, "w")
        assert await counting.store.transact(holder, "e", counting.bump) == 1
        assert await counting.store.transact(holder, "e", counting.bump) == 1
        await counting.store.release(holder)
    assert await counting.count() == 1
    assert await counting.store.load("w") == {"e": 1}


async def test_a_fenced_pass_runs_no_effect(counting: Counting) -> None:
    holder = await claimed(counting.store, "w")
    await counting.store.discard("w")
    with pytest.raises(Fenced):
        await counting.store.transact(holder, "e", counting.bump)
    assert await counting.count() == 0


async def test_an_effect_that_fails_before_it_wrote_may_run_again(counting: Counting) -> None:
    holder = await claimed(counting.store, "w")
    for _ in range(2):
        with pytest.raises(Exception) as caught:
            await counting.store.transact(holder, "e", counting.fails_before)
        assert not isinstance(caught.value, EffectTorn)
    assert await counting.store.transact(holder, "e", counting.bump) == 1


async def test_a_torn_effect_says_so_to_every_pass_until_it_is_cleared(counting: Counting) -> None:
    for _ in range(3):
        holder = await claimed(counting.store, "w")
        with pytest.raises(EffectTorn) as caught:
            await counting.store.transact(holder, "e", counting.fails_after)
        assert "'w'" in str(caught.value) and "'e'" in str(caught.value)
        await counting.store.release(holder)
    assert await counting.count() == 1
    assert await counting.store.load("w") == {}
    assert await counting.store.clear_torn("w", "e")
    assert not await counting.store.clear_torn("w", "e")
    holder = await claimed(counting.store, "w")
    assert await counting.store.transact(holder, "e", counting.bump) == 2


async def test_a_winning_effect_is_a_sign_of_life_and_undoes_no_release(counting: Counting) -> None:
    holder = await claimed(counting.store, "w", alive=ms(60_000))
    await counting.store.release(holder)
    await counting.store.transact(holder, "e", counting.bump)
    assert await counting.store.claim("w") is not None


@pytest.mark.parametrize("key", ["", "inbox:1", 5])
async def test_an_effects_step_name_is_checked(counting: Counting, key: Any) -> None:
    holder = await claimed(counting.store, "w")
    with pytest.raises((ValueError, TypeError)):
        await counting.store.transact(holder, key, counting.bump)
    assert await counting.count() == 0


async def test_a_body_transacts_once_and_replays_the_result(counting: Counting) -> None:
    async def body(run: Run) -> int:
        return await run.transact("e", counting.bump, number, within=ms(100))

    for _ in range(2):
        holder = await claimed(counting.store, "w")
        assert await resume(holder, counting.store, body) == Completed(1)
        await counting.store.release(holder)
    assert await counting.count() == 1


async def test_a_body_that_lost_its_workflow_transacts_nothing(counting: Counting) -> None:
    async def body(run: Run) -> int:
        await counting.store.discard("w")
        return await run.transact("e", counting.bump, number)

    with pytest.raises(Fenced):
        await resume(await claimed(counting.store, "w"), counting.store, body)
    assert await counting.count() == 0


NAMES = "records pass step token ttl mark held stored reads marked wrote watch watched keys args ran result effect now_ms"


@pytest.mark.parametrize("name", NAMES.split())
async def test_an_effect_reaches_no_name_of_the_script_around_it(
    redis: Redis, namespace: str, name: str
) -> None:
    store = RedisCheckpointer(redis, namespace)
    counter = f"{namespace}:{{w}}:count"
    source = f"local n = redis.call('INCR', KEYS[1]) {name} = n return tostring(n)"
    for _ in range(2):
        holder = await claimed(store, "w")
        with pytest.raises((ResponseError, EffectTorn)):
            await store.transact(holder, "e", LuaEffect(source, (counter,)))
        await store.release(holder)
    assert await redis.get(counter) == "1"
    assert await store.load("w") == {}


async def test_an_effects_error_tells_its_own_line(redis: Redis, namespace: str) -> None:
    store = RedisCheckpointer(redis, namespace)
    effect = LuaEffect("local a = 1\nlocal b = nil\nreturn b.c")
    with pytest.raises(ResponseError, match="user_script:3:"):
        await store.transact(await claimed(store, "w"), "e", effect)


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
async def test_a_result_that_no_pass_could_read_is_not_recorded(
    redis: Redis, namespace: str, source: str
) -> None:
    store = RedisCheckpointer(redis, namespace)
    holder = await claimed(store, "w")
    with pytest.raises(EffectResultError, match="'e'"):
        await store.transact(holder, "e", LuaEffect(source))
    counter = f"{namespace}:{{w}}:count"
    with pytest.raises(EffectTorn):
        await store.transact(holder, "f", LuaEffect(f"redis.call('INCR', KEYS[1]) {source}", (counter,)))
    assert await store.load("w") == {}


async def test_a_result_of_any_script_comes_back(redis: Redis, namespace: str) -> None:
    store = RedisCheckpointer(redis, namespace)
    holder = await claimed(store, "w")
    for n, text in enumerate(["é", "日本", "😀", "a\x7f", ""]):
        effect = LuaEffect("return cjson.encode(ARGV[1])", (), (text,))
        assert await store.transact(holder, f"e{n}", effect) == text
