# Generated from tests/redis_async/test_lost_replies.py by twin.py. Edit that file.
"""A lost reply is not a second act: the client sends each script again, and it answers the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from durably.embedded import EmbeddedServer
from durably_redis_sync import (
    LuaEffect,
    RedisCheckpointer,
    RedisDurable,
    RedisSetScheduler,
    RedisStreamScheduler,
    SplitDurable,
    claimed,
    now_utc,
)
from durably_redis_sync.together import Closing, close_pass, open_pass, renew_all
from proxy import Proxy, serving
from support import ms
from support_sync import Redis, together
from support_sync import client as connect


@pytest.fixture
def proxy(server: EmbeddedServer) -> Iterator[Proxy]:
    with serving(server) as started:
        yield started


@pytest.fixture
def far(proxy: Proxy) -> Iterator[Redis]:
    """A client that reaches the server through the proxy."""
    client = connect(proxy.url)
    yield client
    client.close()


@pytest.fixture
def store(far: Redis, namespace: str) -> RedisCheckpointer:
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
        far.script_load(script.source)
    far.script_load(made.hand_back.source)
    return made


def lost(proxy: Proxy, call: Any, *args: Any, command: str = "evalsha") -> Any:
    """Make `call` while the reply to its script is lost once."""
    before = proxy.swallowed
    proxy.swallow_next(command)
    answer = call(*args)
    assert proxy.swallowed == before + 1, "the reply was not lost"
    return answer


def test_a_claim_is_not_held_by_another_when_it_was_us(proxy: Proxy, store: RedisCheckpointer) -> None:
    holder = lost(proxy, store.claim, "w")
    assert holder is not None
    assert (store.record(holder, "a", 1)).first
    assert store.claim("w") is None


def test_a_record_is_still_the_first(proxy: Proxy, store: RedisCheckpointer) -> None:
    holder = claimed(store, "w")
    assert (lost(proxy, store.record, holder, "a", 1)).first
    assert len(store.load("w")) == 1


def test_extend_renew_and_release_still_hold(proxy: Proxy, store: RedisCheckpointer) -> None:
    holder = claimed(store, "w")
    assert lost(proxy, store.extend, holder, ms(600_000))
    assert lost(proxy, store.renew, holder)
    lost(proxy, store.release, holder)
    assert store.claim("w") is not None


def test_a_message_is_filed_once(proxy: Proxy, store: RedisCheckpointer) -> None:
    entry = lost(proxy, store.append, "w", "hello")
    assert store.load("w") == {entry.key: "hello"}


def test_a_value_is_supplied_once(proxy: Proxy, store: RedisCheckpointer) -> None:
    assert lost(proxy, store.supply, "w", "go", 1) == 1


def test_discard_still_reports_its_count(proxy: Proxy, store: RedisCheckpointer) -> None:
    store.supply("w", "a", 1)
    store.supply("w", "b", 1)
    assert lost(proxy, store.discard, "w") == 2
    assert store.load("w") == {}


def test_an_effect_runs_once(proxy: Proxy, store: RedisCheckpointer, far: Redis, namespace: str) -> None:
    holder = claimed(store, "w")
    effect = LuaEffect("return tostring(redis.call('INCR', KEYS[1]))", (f"{namespace}:{{w}}:n",))
    far.script_load(store.transaction(effect.source).source)
    assert lost(proxy, store.transact, holder, "a", effect) == 1
    assert far.get(f"{namespace}:{{w}}:n") == "1"


def test_an_effect_that_tears_says_so_though_the_reply_is_lost(
    proxy: Proxy, store: RedisCheckpointer, far: Redis, namespace: str
) -> None:
    from durably_redis_sync import EffectTorn

    holder = claimed(store, "w")
    effect = LuaEffect("redis.call('INCR', KEYS[1]) error('half way')", (f"{namespace}:{{w}}:n",))
    far.script_load(store.transaction(effect.source).source)
    with pytest.raises(EffectTorn, match="half way"):
        lost(proxy, store.transact, holder, "a", effect)
    assert far.get(f"{namespace}:{{w}}:n") == "1"


def test_the_set_still_holds_what_it_held_under_the_name_it_returns(
    proxy: Proxy, far: Redis, namespace: str
) -> None:
    queue = RedisSetScheduler(far, namespace, lease=ms(60_000))
    for script in (queue.take, queue.keep, queue.finish, queue.suspend, queue.ring, queue.drop):
        far.script_load(script.source)
    lost(proxy, queue.make_ready, "w")
    delivery = lost(proxy, queue.next_ready, ms(5))
    assert delivery is not None, "the wakeup was taken, and nobody was told"
    held = lost(proxy, queue.extend, delivery, ms(60_000))
    assert held.receipt != delivery.receipt
    assert float(held.receipt) == far.zscore(queue.schedule_key, "w")
    lost(proxy, queue.wake_at, held, now_utc() - ms(5))
    again = queue.next_ready(ms(5))
    assert again is not None
    lost(proxy, queue.done, again)
    assert far.zcard(queue.schedule_key) == 0
    queue.make_ready("w")
    lost(proxy, queue.cancel, "w")
    assert queue.next_ready(ms(5)) is None


def test_the_streams_scripts_answer_the_same(proxy: Proxy, far: Redis, namespace: str) -> None:
    queue = RedisStreamScheduler(far, namespace)
    queue.prepare()
    for script in (queue.move, queue.suspend, queue.hold, queue.answer, queue.mark_cancelled, queue.trimmer):
        far.script_load(script.source)
    lost(proxy, queue.make_ready, "w", command="xadd")
    first = queue.next_ready(ms(5))
    assert first is not None
    lost(proxy, queue.extend, first, ms(60_000))
    lost(proxy, queue.wake_at, first, now_utc() - ms(5))
    assert far.zcard(queue.sleeping_key) == 1
    lost(proxy, queue.wake_due, now_utc())
    assert far.zcard(queue.sleeping_key) == 0
    found = 0
    while (delivery := queue.next_ready(ms(5))) is not None:
        found += 1
        lost(proxy, queue.done, delivery)
    assert found in (1, 2), "one wakeup, and the one repeat of make_ready that is allowed"
    queue.make_ready("w")
    lost(proxy, queue.cancel, "w")
    assert queue.next_ready(ms(5)) is None
    lost(proxy, queue.trim)


def test_two_readers_of_one_queue_get_their_own_answers(proxy: Proxy, far: Redis, namespace: str) -> None:
    queue = RedisSetScheduler(far, namespace, poll=ms(5))
    far.script_load(queue.take.source)
    for n in range(12):
        queue.make_ready(f"w{n}")
    taken: list[str] = []

    def read() -> None:
        for _ in range(4):
            delivery = queue.next_ready(ms(500))
            assert delivery is not None
            taken.append(delivery.workflow)

    before = proxy.swallowed
    proxy.swallow_next("evalsha")
    together(read, read, read)
    assert proxy.swallowed == before + 1
    assert sorted(taken) == sorted(f"w{n}" for n in range(12))


def test_the_opening_and_the_end_of_a_pass_are_said_again_as_a_whole(
    proxy: Proxy, store: RedisCheckpointer, far: Redis, namespace: str
) -> None:
    queue = RedisStreamScheduler(far, namespace)
    durable: SplitDurable[LuaEffect] = SplitDurable(store, queue)
    queue.prepare()
    store.supply("w", "a", 1)
    queue.make_ready("w")
    delivery = queue.next_ready(ms(50))
    assert delivery is not None
    opening = lost(proxy, open_pass, durable, delivery, ms(60_000), ms(60_000))
    assert opening.holder is not None and opening.stands and opening.recorded == {"a": 1}
    assert lost(proxy, renew_all, durable, [(opening.holder, delivery)], ms(60_000)) == [delivery]
    assert lost(proxy, close_pass, durable, opening.holder, delivery, None) == Closing(None, None)
    assert store.claim("w") is not None
    pending: Any = far.xpending(queue.ready_key, queue.group)
    assert pending["pending"] == 0


def test_one_commit_is_one_act(proxy: Proxy, store: RedisCheckpointer, far: Redis, namespace: str) -> None:
    one = RedisDurable(store, RedisStreamScheduler(far, namespace))
    one.deliver("w", "first")
    one.arrive("w", "go", 0)
    one.delete("w")
    entry = lost(proxy, one.deliver, "w", "hello")
    assert lost(proxy, one.arrive, "w", "go", 1) == 1
    assert store.load("w") == {entry.key: "hello", "go": 1}
    assert lost(proxy, one.delete, "w") == 2
    assert store.load("w") == {}
