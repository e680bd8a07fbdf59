"""What every checkpointer owes, over memory and Redis."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from functools import partial
from typing import Any

import pytest
from durably_redis_async import INBOX, Contended, Fenced, Pass, Unencodable, claimed, inbox_key
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import ms
from support_async import sleep, together

FALSY: list[object] = [None, 0, "", [], {}, False]


async def test_an_unknown_workflow_loads_as_empty(checkpointer: Any) -> None:
    assert await checkpointer.load("w") == {}
    assert await checkpointer.history("w") == {}


async def test_records_load_in_the_order_of_first_recording_whatever_their_number_and_size(
    checkpointer: Any,
) -> None:
    holder = await claimed(checkpointer, "w")
    keys = [f"step {n * 7919 % 700}" for n in range(700)]
    for n, key in enumerate(keys):
        await checkpointer.record(holder, key, "x" * (n % 90))
    await checkpointer.record(holder, keys[3], "again")
    assert list(await checkpointer.load("w")) == keys
    assert list(await checkpointer.history("w")) == keys


async def test_history_tells_the_time_of_the_winning_write(checkpointer: Any) -> None:
    before = datetime.now(timezone.utc) - ms(1)
    holder = await claimed(checkpointer, "w")
    await checkpointer.record(holder, "a", 1)
    first = (await checkpointer.history("w"))["a"]
    await sleep(0.005)
    await checkpointer.record(holder, "a", 2)
    assert (await checkpointer.history("w"))["a"] == first
    assert first.at.utcoffset() == timedelta(0)
    assert before <= first.at <= datetime.now(timezone.utc) + ms(1)


async def test_only_one_of_many_claims_wins(checkpointer: Any) -> None:
    got = await together(*(lambda: checkpointer.claim("w") for _ in range(20)))
    assert len([one for one in got if one is not None]) == 1
    with pytest.raises(Contended):
        await claimed(checkpointer, "w")


async def test_tokens_rise_strictly(checkpointer: Any) -> None:
    tokens = []
    for _ in range(20):
        holder = await claimed(checkpointer, "w")
        tokens.append(holder.token)
        await checkpointer.release(holder)
    assert tokens == sorted(set(tokens))


async def test_a_claim_lapses_without_a_sign_of_life(checkpointer: Any) -> None:
    await claimed(checkpointer, "w", ms(60_000), ms(40))
    assert await checkpointer.claim("w") is None
    await sleep(0.06)
    assert await checkpointer.claim("w") is not None


async def test_a_claim_lapses_at_the_end_of_its_budget_however_often_renewed(checkpointer: Any) -> None:
    holder = await claimed(checkpointer, "w", ms(80), ms(60_000))
    assert await checkpointer.renew(holder)
    await sleep(0.1)
    assert not await checkpointer.renew(holder)
    assert await checkpointer.claim("w") is not None


async def test_renewing_keeps_a_claim(checkpointer: Any) -> None:
    holder = await claimed(checkpointer, "w", ms(60_000), ms(80))
    for _ in range(5):
        await sleep(0.03)
        assert await checkpointer.renew(holder, ms(80))
    assert await checkpointer.claim("w") is None


async def test_extending_never_brings_a_budget_forward(checkpointer: Any) -> None:
    holder = await claimed(checkpointer, "w", ms(60_000), ms(60_000))
    assert await checkpointer.extend(holder, ms(1), ms(60_000))
    await sleep(0.01)
    assert await checkpointer.renew(holder)


async def test_extending_revives_a_claim_that_lapsed_and_was_not_taken(checkpointer: Any) -> None:
    holder = await claimed(checkpointer, "w", ms(20), ms(20))
    await sleep(0.04)
    assert await checkpointer.extend(holder, ms(60_000), ms(60_000))
    assert await checkpointer.claim("w") is None


async def test_nothing_revives_a_claim_that_was_given_back(checkpointer: Any) -> None:
    holder = await claimed(checkpointer, "w")
    await checkpointer.release(holder)
    assert not await checkpointer.extend(holder, ms(60_000))
    assert not await checkpointer.renew(holder)
    await checkpointer.record(holder, "a", 1)
    assert await checkpointer.claim("w") is not None


async def test_below_the_fence_everything_is_refused_and_nothing_moves(checkpointer: Any) -> None:
    old = await claimed(checkpointer, "w", ms(20), ms(20))
    await checkpointer.record(old, "a", 1)
    await sleep(0.04)
    new = await claimed(checkpointer, "w", ms(60_000), ms(60))
    before = await checkpointer.history("w")
    for key in ("a", "b"):
        with pytest.raises(Fenced):
            await checkpointer.record(old, key, 2)
    assert not await checkpointer.extend(old, ms(60_000))
    assert not await checkpointer.renew(old)
    await checkpointer.release(old)
    assert await checkpointer.history("w") == before
    assert await checkpointer.claim("w") is None
    await sleep(0.08)
    assert (await claimed(checkpointer, "w")).token > new.token


async def test_a_record_is_a_sign_of_life_but_not_past_the_budget(checkpointer: Any) -> None:
    holder = await claimed(checkpointer, "w", ms(1500), ms(500))
    for n in range(4):
        await sleep(0.2)
        await checkpointer.record(holder, f"s{n}", n)
        assert await checkpointer.claim("w") is None
    await sleep(0.8)
    assert await checkpointer.claim("w") is not None


async def test_a_recorded_key_is_never_overwritten_and_a_tie_is_a_win(checkpointer: Any) -> None:
    holder = await claimed(checkpointer, "w")
    first = await checkpointer.record(holder, "a", {"x": 1, "y": 2})
    tie = await checkpointer.record(holder, "a", {"y": 2, "x": 1})
    late = await checkpointer.record(holder, "a", {"x": 2})
    assert (first.first, tie.first, late.first) == (True, True, False)
    assert first.value == tie.value == late.value == {"x": 1, "y": 2}


@pytest.mark.parametrize("value", FALSY, ids=repr)
async def test_falsy_results_are_results(checkpointer: Any, value: object) -> None:
    holder = await claimed(checkpointer, "w")
    assert (await checkpointer.record(holder, "a", value)).first
    again = await checkpointer.record(holder, "a", "other")
    assert again.value == value and not again.first
    assert await checkpointer.load("w") == {"a": value}


async def test_every_value_crosses_the_codec_both_ways(checkpointer: Any) -> None:
    holder = await claimed(checkpointer, "w")
    assert (await checkpointer.record(holder, "a", (1, 2))).value == [1, 2]
    assert await checkpointer.supply("w", "b", (1,)) == [1]
    assert (await checkpointer.append("w", (1,))).value == [1]


async def test_a_value_that_the_codec_cannot_carry_names_the_step_and_writes_nothing(
    checkpointer: Any,
) -> None:
    holder = await claimed(checkpointer, "w")
    for value in (object(), float("nan"), {(1, 2): 3}, "\ud800"[:0] + "ok" and {"k": object()}):
        with pytest.raises(Unencodable, match="charge"):
            await checkpointer.record(holder, "charge", value)
    assert await checkpointer.load("w") == {}


async def test_supplying_needs_no_claim_and_the_first_value_stands(checkpointer: Any) -> None:
    assert await checkpointer.supply("w", "go", "yes") == "yes"
    assert await checkpointer.supply("w", "go", "no") == "yes"
    assert await checkpointer.load("w") == {"go": "yes"}


async def test_messages_get_distinct_keys_that_sort_in_the_order_of_appending(checkpointer: Any) -> None:
    holder = await claimed(checkpointer, "w")
    keys = []
    for n in range(12):
        if n % 3 == 0:
            await checkpointer.record(holder, f"s{n}", n)
        entry = await checkpointer.append("w", n)
        assert entry.value == n
        keys.append(entry.key)
    assert all(key.startswith(INBOX) for key in keys)
    assert keys == sorted(set(keys))
    many = await together(*(partial(checkpointer.append, "w", n) for n in range(20)))
    assert len({one.key for one in many} | set(keys)) == 32


async def test_discarding_removes_everything_and_fences_a_pass_in_flight(checkpointer: Any) -> None:
    holder = await claimed(checkpointer, "w")
    await checkpointer.record(holder, "a", 1)
    await checkpointer.append("w", 2)
    assert await checkpointer.discard("w") == 2
    assert await checkpointer.load("w") == {}
    with pytest.raises(Fenced):
        await checkpointer.record(holder, "b", 1)
    assert not await checkpointer.renew(holder)
    again = await claimed(checkpointer, "w")
    assert again.token > holder.token
    assert (await checkpointer.record(again, "a", 3)).first
    assert await checkpointer.discard("unknown") == 0


async def test_a_pass_that_nobody_granted_writes_nothing(checkpointer: Any) -> None:
    with pytest.raises(Fenced):
        await checkpointer.record(Pass("w", 1), "a", 1)
    assert await checkpointer.load("w") == {}


@pytest.mark.parametrize("bad", [timedelta(0), timedelta(seconds=-1)])
async def test_durations_must_be_positive(checkpointer: Any, bad: timedelta) -> None:
    holder = await claimed(checkpointer, "w")
    calls: list[Any] = [
        lambda: checkpointer.claim("x", bad),
        lambda: checkpointer.claim("x", ms(5), bad),
        lambda: checkpointer.extend(holder, bad),
        lambda: checkpointer.extend(holder, ms(5), bad),
        lambda: checkpointer.renew(holder, bad),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="positive"):
            await call()


async def test_names_are_checked_before_anything_is_written(checkpointer: Any) -> None:
    holder = await claimed(checkpointer, "w")
    for key in ("", "inbox:", inbox_key(1)):
        with pytest.raises(ValueError):
            await checkpointer.record(holder, key, 1)
        with pytest.raises(ValueError):
            await checkpointer.supply("w", key, 1)
    for call in (checkpointer.load, checkpointer.claim, checkpointer.discard):
        with pytest.raises(ValueError, match="empty"):
            await call("")
    with pytest.raises(ValueError):
        await checkpointer.append("", 1)
    assert await checkpointer.load("w") == {}


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    acts=st.lists(
        st.one_of(
            st.tuples(st.just("record"), st.text(min_size=1, max_size=5), st.integers()),
            st.tuples(st.just("supply"), st.text(min_size=1, max_size=5), st.integers()),
            st.tuples(st.just("append"), st.just(""), st.text(alphabet="ab", max_size=90)),
        ),
        max_size=30,
    )
)
async def test_load_follows_a_model(checkpointer: Any, acts: list[tuple[str, str, Any]]) -> None:
    await checkpointer.discard("m")
    holder = await claimed(checkpointer, "m")
    model: dict[str, object] = {}
    for act, key, value in acts:
        key = f"k{key}"
        if act == "append":
            entry = await checkpointer.append("m", value)
            assert entry.key not in model
            model[entry.key] = value
        elif act == "record":
            assert (await checkpointer.record(holder, key, value)).value == model.setdefault(key, value)
        else:
            assert await checkpointer.supply("m", key, value) == model.setdefault(key, value)
    assert list((await checkpointer.load("m")).items()) == list(model.items())
