"""A lost reply is not a second act: the client sends each script again, and it answers the same."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from durably.embedded import EmbeddedServer
from durably_redis_async import (
    LuaEffect,
    RedisCheckpointer,
    RedisDurable,
    RedisSetScheduler,
    RedisStreamScheduler,
    SplitDurable,
    claimed,
    now_utc,
)
from durably_redis_async.together import Closing, close_pass, open_pass, renew_all
from proxy import Proxy, serving
from support import ms
from support_async import Redis, together
from support_async import client as connect


@pytest.fixture
def proxy(server: EmbeddedServer) -> Iterator[Proxy]:
    with serving(server) as started:
        yield started


@pytest.fixture
async def far(proxy: Proxy) -> AsyncIterator[Redis]:
    """A client that reaches the server through the proxy."""
    client = connect(proxy.url)
    yield client
    await client.aclose()


@pytest.fixture
async def store(far: Redis, namespace: str) -> RedisCheckpointer:
    """A store behind the proxy whose scripts the server knows."""
    made = RedisCheckpointer(far, namespace)
    for script in (
        made.take,
        made.stretch,
        made.still_here,
        made.write,
        made.offer,
        made.file_away,
        made.forget,
    ):
        await far.script_load(script.source)
    await far.script_load(made.hand_back.source)
    return made


async def lost(proxy: Proxy, call: Any, *args: Any, command: str = "evalsha") -> Any:
    """Make `call` while the reply to its script is lost once."""
    before = proxy.swallowed
    proxy.swallow_next(command)
    answer = await call(*args)
    assert proxy.swallowed == before + 1, "the reply was not lost"
    return answer


async def test_a_claim_is_not_held_by_another_when_it_was_us(proxy: Proxy, store: RedisCheckpointer) -> None:
    holder = await lost(proxy, store.claim, "w")
    assert holder is not None
    assert (await store.record(holder, "a", 1)).first
    assert await store.claim("w") is None


async def test_a_record_is_still_the_first(proxy: Proxy, store: RedisCheckpointer) -> None:
    holder = await claimed(store, "w")
    assert (await lost(proxy, store.record, holder, "a", 1)).first
    assert len(await store.load("w")) == 1


async def test_extend_renew_and_release_still_hold(proxy: Proxy, store: RedisCheckpointer) -> None:
    holder = await claimed(store, "w")
    assert await lost(proxy, store.extend, holder, ms(600_000))
    assert await lost(proxy, store.renew, holder)
    await lost(proxy, store.release, holder)
    assert await store.claim("w") is not None


async def test_a_message_is_filed_once(proxy: Proxy, store: RedisCheckpointer) -> None:
    entry = await lost(proxy, store.append, "w", "hello")
    assert await store.load("w") == {entry.key: "hello"}


async def test_a_value_is_supplied_once(proxy: Proxy, store: RedisCheckpointer) -> None:
    assert await lost(proxy, store.supply, "w", "go", 1) == 1


async def test_discard_still_reports_its_count(proxy: Proxy, store: RedisCheckpointer) -> None:
    await store.supply("w", "a", 1)
    await store.supply("w", "b", 1)
    assert await lost(proxy, store.discard, "w") == 2
    assert await store.load("w") == {}


async def test_an_effect_runs_once(
    proxy: Proxy, store: RedisCheckpointer, far: Redis, namespace: str
) -> None:
    holder = await claimed(store, "w")
    effect = LuaEffect("return tostring(redis.call('INCR', KEYS[1]))", (f"{namespace}:{{w}}:n",))
    await far.script_load(store.transaction(effect.source).source)
    assert await lost(proxy, store.transact, holder, "a", effect) == 1
    assert await far.get(f"{namespace}:{{w}}:n") == "1"


async def test_an_effect_that_tears_says_so_though_the_reply_is_lost(
    proxy: Proxy, store: RedisCheckpointer, far: Redis, namespace: str
) -> None:
    from durably_redis_async import EffectTorn

    holder = await claimed(store, "w")
    effect = LuaEffect("redis.call('INCR', KEYS[1]) error('half way')", (f"{namespace}:{{w}}:n",))
    await far.script_load(store.transaction(effect.source).source)
    with pytest.raises(EffectTorn, match="half way"):
        await lost(proxy, store.transact, holder, "a", effect)
    assert await far.get(f"{namespace}:{{w}}:n") == "1"


async def test_the_set_still_holds_what_it_held_under_the_name_it_returns(
    proxy: Proxy, far: Redis, namespace: str
) -> None:
    queue = RedisSetScheduler(far, namespace, lease=ms(60_000))
    for script in (queue.take, queue.keep, queue.finish, queue.suspend, queue.ring, queue.drop):
        await far.script_load(script.source)
    await lost(proxy, queue.make_ready, "w")
    delivery = await lost(proxy, queue.next_ready, ms(5))
    assert delivery is not None, "the wakeup was taken, and nobody was told"
    held = await lost(proxy, queue.extend, delivery, ms(60_000))
    assert held.receipt != delivery.receipt
    assert float(held.receipt) == await far.zscore(queue.schedule_key, "w")
    await lost(proxy, queue.wake_at, held, now_utc() - ms(5))
    again = await queue.next_ready(ms(5))
    assert again is not None
    await lost(proxy, queue.done, again)
    assert await far.zcard(queue.schedule_key) == 0
    await queue.make_ready("w")
    await lost(proxy, queue.cancel, "w")
    assert await queue.next_ready(ms(5)) is None


async def test_the_streams_scripts_answer_the_same(proxy: Proxy, far: Redis, namespace: str) -> None:
    queue = RedisStreamScheduler(far, namespace)
    await queue.prepare()
    for script in (queue.move, queue.suspend, queue.hold, queue.answer, queue.mark_cancelled, queue.trimmer):
        await far.script_load(script.source)
    await lost(proxy, queue.make_ready, "w", command="xadd")
    first = await queue.next_ready(ms(5))
    assert first is not None
    await lost(proxy, queue.extend, first, ms(60_000))
    await lost(proxy, queue.wake_at, first, now_utc() - ms(5))
    assert await far.zcard(queue.sleeping_key) == 1
    await lost(proxy, queue.wake_due, now_utc())
    assert await far.zcard(queue.sleeping_key) == 0
    found = 0
    while (delivery := await queue.next_ready(ms(5))) is not None:
        found += 1
        await lost(proxy, queue.done, delivery)
    assert found in (1, 2), "one wakeup, and the one repeat of make_ready that is allowed"
    await queue.make_ready("w")
    await lost(proxy, queue.cancel, "w")
    assert await queue.next_ready(ms(5)) is None
    await lost(proxy, queue.trim)


async def test_two_readers_of_one_queue_get_their_own_answers(
    proxy: Proxy, far: Redis, namespace: str
) -> None:
    queue = RedisSetScheduler(far, namespace, poll=ms(5))
    await far.script_load(queue.take.source)
    for n in range(12):
        await queue.make_ready(f"w{n}")
    taken: list[str] = []

    async def read() -> None:
        for _ in range(4):
            delivery = await queue.next_ready(ms(500))
            assert delivery is not None
            taken.append(delivery.workflow)

    before = proxy.swallowed
    proxy.swallow_next("evalsha")
    await together(read, read, read)
    assert proxy.swallowed == before + 1
    assert sorted(taken) == sorted(f"w{n}" for n in range(12))


async def test_the_opening_and_the_end_of_a_pass_are_said_again_as_a_whole(
    proxy: Proxy, store: RedisCheckpointer, far: Redis, namespace: str
) -> None:
    queue = RedisStreamScheduler(far, namespace)
    durable: SplitDurable[LuaEffect] = SplitDurable(store, queue)
    await queue.prepare()
    await store.supply("w", "a", 1)
    await queue.make_ready("w")
    delivery = await queue.next_ready(ms(50))
    assert delivery is not None
    opening = await lost(proxy, open_pass, durable, delivery, ms(60_000), ms(60_000))
    assert opening.holder is not None and opening.stands and opening.recorded == {"a": 1}
    assert await lost(proxy, renew_all, durable, [(opening.holder, delivery)], ms(60_000)) == [delivery]
    assert await lost(proxy, close_pass, durable, opening.holder, delivery, None) == Closing(None, None)
    assert await store.claim("w") is not None
    pending: Any = await far.xpending(queue.ready_key, queue.group)
    assert pending["pending"] == 0


async def test_one_commit_is_one_act(
    proxy: Proxy, store: RedisCheckpointer, far: Redis, namespace: str
) -> None:
    one = RedisDurable(store, RedisStreamScheduler(far, namespace))
    await one.deliver("w", "first")
    await one.arrive("w", "go", 0)
    await one.delete("w")
    entry = await lost(proxy, one.deliver, "w", "hello")
    assert await lost(proxy, one.arrive, "w", "go", 1) == 1
    assert await store.load("w") == {entry.key: "hello", "go": 1}
    assert await lost(proxy, one.delete, "w") == 2
    assert await store.load("w") == {}
