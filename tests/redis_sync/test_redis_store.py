# Generated from tests/redis_async/test_redis_store.py by twin.py. Edit that file.
"""What only the Redis store owes: the wire format, its keys' lives, and what servers and clients do to it."""

from __future__ import annotations

import re
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from durably.embedded import EmbeddedServer
from durably_redis_sync import (
    Blocked,
    Completed,
    EffectResultError,
    EffectTorn,
    Fenced,
    LuaEffect,
    Pass,
    RedisCheckpointer,
    RedisSetScheduler,
    RedisStreamScheduler,
    Run,
    Undecodable,
    claimed,
    now_utc,
    resume,
)
from redis.exceptions import ResponseError
from support import ms, same
from support_sync import Redis, sleep, together
from support_sync import client as connect


@pytest.fixture
def store(redis: Redis, namespace: str) -> RedisCheckpointer:
    return RedisCheckpointer(redis, namespace)


def test_the_wire_format_is_the_documented_one(store: RedisCheckpointer, redis: Redis) -> None:
    holder = claimed(store, "w", ms(300_000), ms(60_000))
    store.record(holder, "b", {"x": [1, "é"]})
    store.append("w", "hi")
    fields: Any = redis.hgetall(store.hash_key("w"))
    assert re.fullmatch(r'0:\d{13}:\{"x": \[1, "\\u00e9"\]\}', fields["b"])
    assert re.fullmatch(r'1:\d{13}:"hi"', fields["inbox:00000000000000000001"])
    claim: Any = redis.hgetall(store.pass_key("w"))
    assert int(claim["token"]) == holder.token
    assert claim["for"] == "60000"
    assert 0 < int(claim["until"]) - int(claim["alive"]) <= 240_000
    assert store.hash_key("w") == f"{store.namespace}:{{w}}"
    assert store.pass_key("w") == f"{store.namespace}:{{w}}:pass"


def test_tokens_rise_across_the_expiry_of_the_claims_key(redis: Redis, namespace: str) -> None:
    store = RedisCheckpointer(redis, namespace, ttl=ms(10))
    holder = claimed(store, "w", ms(10), ms(10))
    sleep(0.06)
    assert not redis.exists(store.pass_key("w"))
    assert (claimed(store, "w")).token > holder.token
    with pytest.raises(Fenced):
        store.record(holder, "a", 1)


def test_no_expiry_cuts_a_live_claim_short(redis: Redis, namespace: str) -> None:
    store = RedisCheckpointer(redis, namespace, ttl=ms(10))
    holder = claimed(store, "w")
    sleep(0.05)
    assert store.claim("w") is None
    store.record(holder, "a", 1)
    sleep(0.05)
    assert store.claim("w") is None
    assert store.renew(holder)


def test_an_expired_claims_holder_writes_nothing(redis: Redis, namespace: str) -> None:
    store = RedisCheckpointer(redis, namespace, ttl=ms(5))
    holder = claimed(store, "w", ms(5), ms(5))
    sleep(0.05)
    with pytest.raises(Fenced):
        store.record(holder, "a", 1)
    assert not redis.exists(store.hash_key("w"))


def test_the_servers_own_errors_reach_the_caller(store: RedisCheckpointer, redis: Redis) -> None:
    holder = claimed(store, "w")
    redis.set(store.hash_key("w"), "text")
    calls: list[Any] = [
        partial(store.record, holder, "a", 1),
        partial(store.supply, "w", "a", 1),
        partial(store.append, "w", 1),
        partial(store.load, "w"),
    ]
    for call in calls:
        with pytest.raises(ResponseError, match="WRONGTYPE"):
            call()
    assert redis.get(store.hash_key("w")) == "text"


def test_a_record_that_is_none_names_workflow_and_step(store: RedisCheckpointer, redis: Redis) -> None:
    redis.hset(store.hash_key("w"), "odd", "0:17:{")
    with pytest.raises(Undecodable, match="'odd'.*'w'"):
        store.load("w")
    redis.hset(store.hash_key("w"), "odd", "nonsense")
    with pytest.raises(Undecodable, match="'odd'"):
        store.load("w")


def test_what_does_not_fit_is_refused_at_construction(redis: Redis, server: EmbeddedServer) -> None:
    bytes_client = Redis.from_url(server.url)
    for make in (RedisCheckpointer, RedisStreamScheduler, RedisSetScheduler):
        with pytest.raises(ValueError, match="decode_responses=True"):
            make(bytes_client)
        with pytest.raises(TypeError):
            make(object())  # type: ignore[arg-type]
        for namespace in ("", "a{b", "a}"):
            with pytest.raises(ValueError, match="namespace"):
                make(redis, namespace)
    bytes_client.close()
    with pytest.raises(ValueError):
        RedisCheckpointer(redis, ttl=timedelta(0))
    for bad in (timedelta(0), timedelta(seconds=-1)):
        with pytest.raises(ValueError):
            RedisStreamScheduler(redis, lease=bad)
        with pytest.raises(ValueError):
            RedisSetScheduler(redis, poll=bad)
    with pytest.raises(ValueError):
        RedisStreamScheduler(redis, batch=0)
    with pytest.raises(ValueError):
        RedisStreamScheduler(redis, group="")


def test_scripts_flushed_between_any_two_calls_change_nothing(
    store: RedisCheckpointer, redis: Redis, namespace: str
) -> None:
    stream, in_set = RedisStreamScheduler(redis, namespace), RedisSetScheduler(redis, namespace)
    redis.script_flush()
    holder = claimed(store, "w")
    effect = LuaEffect("return '5'")
    for call in (
        lambda: store.record(holder, "a", 1),
        lambda: store.transact(holder, "t", effect),
        lambda: store.supply("w", "s", 1),
        lambda: store.append("w", 1),
        lambda: store.renew(holder),
        lambda: store.extend(holder, ms(5)),
        lambda: store.release(holder),
        lambda: stream.wake_due(now_utc()),
        lambda: stream.trim(),
        lambda: in_set.make_ready("w"),
        lambda: in_set.next_ready(ms(5)),
        lambda: store.discard("w"),
    ):
        redis.script_flush()
        assert call() is not False  # type: ignore[no-untyped-call]


def test_connections_killed_between_any_two_calls_change_nothing(
    store: RedisCheckpointer, redis: Redis, server: EmbeddedServer
) -> None:
    killer = connect(server.url)
    holder = claimed(store, "w")
    for n in range(10):
        killer.client_kill_filter(_type="normal", skipme=True)
        assert (store.record(holder, f"s{n}", n)).first
    assert len(store.load("w")) == 10
    killer.close()


def test_a_restarted_server_changes_nothing(own_server: EmbeddedServer, namespace: str) -> None:
    client = connect(own_server.url)
    store = RedisCheckpointer(client, namespace)
    holder = claimed(store, "w")
    for n in range(3):
        store.record(holder, f"s{n}", n)
        own_server.kill()
        own_server.restart()
        assert store.renew(holder)
    assert store.load("w") == {"s0": 0, "s1": 1, "s2": 2}
    client.close()


@pytest.mark.parametrize("protocol", [2, 3])
def test_both_protocols_behave_the_same(server: EmbeddedServer, namespace: str, protocol: int) -> None:
    client = connect(server.url, protocol=protocol)
    store = RedisCheckpointer(client, namespace)
    for queue in (RedisStreamScheduler(client, namespace), RedisSetScheduler(client, namespace)):
        queue.prepare()
        queue.make_ready("w")
        delivery = queue.next_ready(ms(100))
        assert delivery is not None and delivery.workflow == "w"
        held = queue.extend(delivery, ms(50))
        queue.wake_at(held, now_utc() - ms(1))
        queue.wake_due(now_utc())
        again = queue.next_ready(ms(100))
        assert again is not None
        assert (queue.reclaim(timedelta(0)) is not None) == isinstance(queue, RedisStreamScheduler)
        queue.cancel("w")
    holder = claimed(store, "w")
    assert (store.record(holder, "a", 1)).first
    assert store.transact(holder, "t", LuaEffect("return '{}'")) == {}
    assert store.load("w") == {"a": 1, "t": {}}
    client.close()


def test_a_wide_fan_out_waits_its_turn_for_a_connection(server: EmbeddedServer, namespace: str) -> None:
    client = connect(server.url, max_connections=4)
    store = RedisCheckpointer(client, namespace)

    def body(run: Run) -> int:
        def effect() -> int:
            return 1

        got = together(*(partial(run.step, f"s{n}", effect, same) for n in range(150)))
        return len(got)

    assert resume(claimed(store, "w"), store, body) == Completed(150)
    client.close()


class TestEffects:
    """Work that the server does in one step with its record."""

    holder: Pass

    def run(self, store: RedisCheckpointer, source: str, *keys: str, key: str = "e") -> object:
        self.holder = store.claim("w") or self.holder
        holder = self.holder
        return store.transact(holder, key, LuaEffect(source, keys))

    @pytest.fixture
    def counter(self, namespace: str) -> str:
        return f"{namespace}:{{w}}:n"

    def test_it_runs_once_and_sees_its_own_keys_and_arguments(
        self, store: RedisCheckpointer, redis: Redis, counter: str
    ) -> None:
        effect = LuaEffect(
            "return tostring(redis.call('INCRBY', KEYS[1], ARGV[2])) -- a remark", (counter,), ("x", 3)
        )
        holder = claimed(store, "w")
        assert store.transact(holder, "e", effect) == 3
        assert store.transact(holder, "e", effect) == 3
        assert redis.get(counter) == "3"

    def test_a_fenced_pass_runs_none(self, store: RedisCheckpointer, redis: Redis, counter: str) -> None:
        holder = claimed(store, "w")
        store.discard("w")
        with pytest.raises(Fenced):
            store.transact(holder, "e", LuaEffect("redis.call('INCR', KEYS[1]) return '1'", (counter,)))
        assert redis.get(counter) is None

    @pytest.mark.parametrize(
        "source",
        [
            "redis.call('HSET', KEYS[1], 'a', 1) return '1'",
            "redis.call('GET', KEYS[1]) error('no')",
            "return redis.error_reply('MYERR no')",
            "local n = redis.pcall('HSET', KEYS[1], 'a', 1) return n",
        ],
    )
    def test_one_that_fails_before_any_write_has_not_happened(
        self, store: RedisCheckpointer, redis: Redis, counter: str, source: str
    ) -> None:
        redis.set(counter, "5")
        for _ in range(2):
            with pytest.raises(ResponseError):
                self.run(store, source, counter)
        assert store.load("w") == {}
        assert not [name for name in map(str, redis.hkeys(store.pass_key("w"))) if name.startswith("torn")]
        assert self.run(store, "return redis.call('GET', KEYS[1])", counter) == 5

    def test_one_that_fails_after_a_write_is_torn_until_cleared(
        self, store: RedisCheckpointer, redis: Redis, counter: str
    ) -> None:
        source = "redis.call('INCR', KEYS[1]) redis.call('HSET', KEYS[1], 'a', 1) return '1'"
        for _ in range(3):
            with pytest.raises(EffectTorn, match="'e'.*'w'.*WRONGTYPE"):
                self.run(store, source, counter)
        store.release(self.holder)
        with pytest.raises(EffectTorn):
            self.run(store, "return '1'")
        assert redis.get(counter) == "1"
        assert store.clear_torn("w", "e")
        assert not store.clear_torn("w", "e")
        assert self.run(store, "return '1'") == 1

    @pytest.mark.parametrize("result", ["nil", "1", "{1}", "false", "true", "redis.call('PING')"])
    def test_results_that_are_no_text_are_refused(
        self, store: RedisCheckpointer, counter: str, result: str
    ) -> None:
        with pytest.raises(EffectResultError, match="'e'"):
            self.run(store, f"return {result}")
        with pytest.raises(EffectTorn, match="'f'"):
            self.run(store, f"redis.call('INCR', KEYS[1]) return {result}", counter, key="f")
        assert store.load("w") == {}

    def test_an_effects_own_words_are_not_taken_for_ours(self, store: RedisCheckpointer) -> None:
        for word in ("FENCED", "TORN", "NOTTEXT"):
            with pytest.raises(ResponseError, match=f"{word} off"):
                self.run(store, f"return redis.error_reply('{word} off')")

    def test_an_effect_is_checked_when_it_is_made(self) -> None:
        with pytest.raises(ValueError):
            LuaEffect(" ")
        with pytest.raises(TypeError):
            LuaEffect("return '1'", keys="abc")  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            LuaEffect("return '1'", args=(None,))  # type: ignore[arg-type]


def test_out_of_memory_each_call_does_all_or_nothing_and_giving_back_works(
    own_server: EmbeddedServer, namespace: str
) -> None:
    client = connect(own_server.url)
    store = RedisCheckpointer(client, namespace)
    stream, in_set = RedisStreamScheduler(client, namespace), RedisSetScheduler(client, namespace)
    stream.prepare()
    for name in ("gone", "w", "x"):
        stream.make_ready(name)
        in_set.make_ready(name)
    holder = claimed(store, "w")
    store.record(holder, "a", 1)
    store.supply("doomed", "a", 1)
    from_stream = [stream.next_ready(ms(50)) for _ in range(3)]
    from_set = [in_set.next_ready(ms(50)) for _ in range(3)]
    assert None not in from_stream and None not in from_set
    client.config_set("maxmemory-policy", "noeviction")
    client.config_set("maxmemory", 1)
    refused: list[Any] = [
        partial(store.record, holder, "b", 1),
        partial(store.supply, "w", "c", 1),
        partial(store.append, "w", 1),
        partial(store.claim, "other"),
        partial(store.transact, holder, "t", LuaEffect("return '1'")),
        partial(stream.make_ready, "y"),
        partial(in_set.make_ready, "y"),
    ]
    for call in refused:
        with pytest.raises(ResponseError, match="maxmemory"):
            call()
    assert store.discard("doomed") == 1
    stream.cancel("gone")
    in_set.cancel("gone")
    for queue, deliveries in ((stream, from_stream), (in_set, from_set)):
        scheduler: Any = queue
        for delivery in deliveries:
            scheduler.done(delivery)
    store.release(holder)
    assert store.load("w") == {"a": 1}
    client.config_set("maxmemory", 0)
    assert store.load("doomed") == {}
    assert store.claim("w") is not None
    assert store.load("w") == {"a": 1}
    for scheduler in (stream, in_set):
        assert scheduler.next_ready(ms(5)) is None
        assert scheduler.reclaim(timedelta(0)) is None
    client.close()


class TestNothingThatWaitsExpires:
    """Records outlive what their workflow waits for; expiry is for what is finished."""

    def pass_over(self, store: RedisCheckpointer, body: Any) -> Any:
        holder = claimed(store, "w")
        outcome = resume(holder, store, body)
        store.release(holder, outcome)
        return outcome

    def body(self, run: Run) -> object:
        def effect() -> int:
            return 1

        run.step("a", effect, int)
        run.sleep("nap", ms(900))
        return run.awaiting("go", int)

    def test_a_sleep_and_a_wait_longer_than_ttl(self, redis: Redis, namespace: str) -> None:
        store = RedisCheckpointer(redis, namespace, ttl=ms(300))
        for name in ("nap", "go"):
            outcome = self.pass_over(store, self.body)
            assert not isinstance(outcome, Completed)
            sleep(1.0)
            assert list(store.load("w"))[:2] == ["a", "nap"], name
        assert redis.pttl(store.hash_key("w")) == -1
        store.supply("w", "go", 7)
        assert redis.pttl(store.hash_key("w")) == -1
        assert self.pass_over(store, self.body) == Completed(7)
        assert 0 < redis.pttl(store.hash_key("w")) <= 300
        sleep(0.45)
        assert store.load("w") == {}
        sleep(0.4)
        assert redis.exists(store.pass_key("w")) == 0

    def test_what_waits_is_abandoned_when_that_is_asked_for(self, redis: Redis, namespace: str) -> None:
        store = RedisCheckpointer(redis, namespace, abandon_after=ms(5_000))

        def body(run: Run) -> object:
            run.sleep("nap", ms(1))
            return run.awaiting("go", int)

        self.pass_over(store, body)
        sleep(0.05)
        assert isinstance(self.pass_over(store, body), Blocked)
        assert 4_000 < redis.pttl(store.hash_key("w")) <= 5_000
        with pytest.raises(ValueError, match="abandon_after"):
            RedisCheckpointer(redis, abandon_after=timedelta(0))

    def test_a_sleeper_lives_for_ttl_beyond_its_deadline(self, redis: Redis, namespace: str) -> None:
        store = RedisCheckpointer(redis, namespace, ttl=ms(60_000))

        def body(run: Run) -> None:
            run.sleep("nap", timedelta(days=30))

        self.pass_over(store, body)
        for key, beyond in ((store.hash_key("w"), 60), (store.pass_key("w"), 120)):
            left = ms(redis.pttl(key))
            # the pass's clock is never behind the server's, and ahead by no more than its opening round trip
            assert timedelta(days=30, seconds=beyond - 60) < left < timedelta(days=30, seconds=beyond + 5)
        store.append("w", "mail")
        assert timedelta(days=30) < ms(redis.pttl(store.hash_key("w")))

    def test_a_failing_pass_keeps_what_was_done(self, redis: Redis, namespace: str) -> None:
        store = RedisCheckpointer(redis, namespace, ttl=ms(400))
        store.supply("w", "a", 1)
        for _ in range(4):
            sleep(0.2)
            holder = claimed(store, "w")
            store.release(holder, LookupError("no"))
        assert store.load("w") == {"a": 1}

    def test_without_an_outcome_records_live_for_ttl_beyond_the_last_sign_of_life(
        self, redis: Redis, namespace: str
    ) -> None:
        store = RedisCheckpointer(redis, namespace, ttl=ms(60_000))
        holder = claimed(store, "w", alive=ms(1))
        store.record(holder, "a", 1)
        store.release(holder)
        assert 55_000 < redis.pttl(store.hash_key("w")) <= 60_001
