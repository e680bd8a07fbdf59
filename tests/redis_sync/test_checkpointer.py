# Generated from tests/redis_async/test_checkpointer.py by twin.py. Edit that file.
"""What every checkpointer owes, over memory and Redis."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from functools import partial
from typing import Any

import pytest
from durably_redis_sync import INBOX, Contended, Fenced, Pass, Unencodable, claimed, inbox_key
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import ms
from support_sync import sleep, together

FALSY: list[object] = [None, 0, "", [], {}, False]


def test_an_unknown_workflow_loads_as_empty(checkpointer: Any) -> None:
    assert checkpointer.load("w") == {}
    assert checkpointer.history("w") == {}


def test_records_load_in_the_order_of_first_recording_whatever_their_number_and_size(
    checkpointer: Any,
) -> None:
    holder = claimed(checkpointer, "w")
    keys = [f"step {n * 7919 % 700}" for n in range(700)]
    for n, key in enumerate(keys):
        checkpointer.record(holder, key, "x" * (n % 90))
    checkpointer.record(holder, keys[3], "again")
    assert list(checkpointer.load("w")) == keys
    assert list(checkpointer.history("w")) == keys


def test_history_tells_the_time_of_the_winning_write(checkpointer: Any) -> None:
    before = datetime.now(timezone.utc) - ms(1)
    holder = claimed(checkpointer, "w")
    checkpointer.record(holder, "a", 1)
    first = (checkpointer.history("w"))["a"]
    sleep(0.005)
    checkpointer.record(holder, "a", 2)
    assert (checkpointer.history("w"))["a"] == first
    assert first.at.utcoffset() == timedelta(0)
    assert before <= first.at <= datetime.now(timezone.utc) + ms(1)


def test_only_one_of_many_claims_wins(checkpointer: Any) -> None:
    got = together(*(lambda: checkpointer.claim("w") for _ in range(20)))
    assert len([one for one in got if one is not None]) == 1
    with pytest.raises(Contended):
        claimed(checkpointer, "w")


def test_tokens_rise_strictly(checkpointer: Any) -> None:
    tokens = []
    for _ in range(20):
        holder = claimed(checkpointer, "w")
        tokens.append(holder.token)
        checkpointer.release(holder)
    assert tokens == sorted(set(tokens))


def test_a_claim_lapses_without_a_sign_of_life(checkpointer: Any) -> None:
    claimed(checkpointer, "w", ms(60_000), ms(40))
    assert checkpointer.claim("w") is None
    sleep(0.06)
    assert checkpointer.claim("w") is not None


def test_a_claim_lapses_at_the_end_of_its_budget_however_often_renewed(checkpointer: Any) -> None:
    holder = claimed(checkpointer, "w", ms(80), ms(60_000))
    assert checkpointer.renew(holder)
    sleep(0.1)
    assert not checkpointer.renew(holder)
    assert checkpointer.claim("w") is not None


def test_renewing_keeps_a_claim(checkpointer: Any) -> None:
    holder = claimed(checkpointer, "w", ms(60_000), ms(80))
    for _ in range(5):
        sleep(0.03)
        assert checkpointer.renew(holder, ms(80))
    assert checkpointer.claim("w") is None


def test_extending_never_brings_a_budget_forward(checkpointer: Any) -> None:
    holder = claimed(checkpointer, "w", ms(60_000), ms(60_000))
    assert checkpointer.extend(holder, ms(1), ms(60_000))
    sleep(0.01)
    assert checkpointer.renew(holder)


def test_extending_revives_a_claim_that_lapsed_and_was_not_taken(checkpointer: Any) -> None:
    holder = claimed(checkpointer, "w", ms(20), ms(20))
    sleep(0.04)
    assert checkpointer.extend(holder, ms(60_000), ms(60_000))
    assert checkpointer.claim("w") is None


def test_nothing_revives_a_claim_that_was_given_back(checkpointer: Any) -> None:
    holder = claimed(checkpointer, "w")
    checkpointer.release(holder)
    assert not checkpointer.extend(holder, ms(60_000))
    assert not checkpointer.renew(holder)
    checkpointer.record(holder, "a", 1)
    assert checkpointer.claim("w") is not None


def test_below_the_fence_everything_is_refused_and_nothing_moves(checkpointer: Any) -> None:
    old = claimed(checkpointer, "w", ms(20), ms(20))
    checkpointer.record(old, "a", 1)
    sleep(0.04)
    new = claimed(checkpointer, "w", ms(60_000), ms(60))
    before = checkpointer.history("w")
    for key in ("a", "b"):
        with pytest.raises(Fenced):
            checkpointer.record(old, key, 2)
    assert not checkpointer.extend(old, ms(60_000))
    assert not checkpointer.renew(old)
    checkpointer.release(old)
    assert checkpointer.history("w") == before
    assert checkpointer.claim("w") is None
    sleep(0.08)
    assert (claimed(checkpointer, "w")).token > new.token


def test_a_record_is_a_sign_of_life_but_not_past_the_budget(checkpointer: Any) -> None:
    holder = claimed(checkpointer, "w", ms(1500), ms(500))
    for n in range(4):
        sleep(0.2)
        checkpointer.record(holder, f"s{n}", n)
        assert checkpointer.claim("w") is None
    sleep(0.8)
    assert checkpointer.claim("w") is not None


def test_a_recorded_key_is_never_overwritten_and_a_tie_is_a_win(checkpointer: Any) -> None:
    holder = claimed(checkpointer, "w")
    first = checkpointer.record(holder, "a", {"x": 1, "y": 2})
    tie = checkpointer.record(holder, "a", {"y": 2, "x": 1})
    late = checkpointer.record(holder, "a", {"x": 2})
    assert (first.first, tie.first, late.first) == (True, True, False)
    assert first.value == tie.value == late.value == {"x": 1, "y": 2}


@pytest.mark.parametrize("value", FALSY, ids=repr)
def test_falsy_results_are_results(checkpointer: Any, value: object) -> None:
    holder = claimed(checkpointer, "w")
    assert (checkpointer.record(holder, "a", value)).first
    again = checkpointer.record(holder, "a", "other")
    assert again.value == value and not again.first
    assert checkpointer.load("w") == {"a": value}


def test_every_value_crosses_the_codec_both_ways(checkpointer: Any) -> None:
    holder = claimed(checkpointer, "w")
    assert (checkpointer.record(holder, "a", (1, 2))).value == [1, 2]
    assert checkpointer.supply("w", "b", (1,)) == [1]
    assert (checkpointer.append("w", (1,))).value == [1]


def test_a_value_that_the_codec_cannot_carry_names_the_step_and_writes_nothing(
    checkpointer: Any,
) -> None:
    holder = claimed(checkpointer, "w")
    for value in (object(), float("nan"), {(1, 2): 3}, "\ud800"[:0] + "ok" and {"k": object()}):
        with pytest.raises(Unencodable, match="charge"):
            checkpointer.record(holder, "charge", value)
    assert checkpointer.load("w") == {}


def test_supplying_needs_no_claim_and_the_first_value_stands(checkpointer: Any) -> None:
    assert checkpointer.supply("w", "go", "yes") == "yes"
    assert checkpointer.supply("w", "go", "no") == "yes"
    assert checkpointer.load("w") == {"go": "yes"}


def test_messages_get_distinct_keys_that_sort_in_the_order_of_appending(checkpointer: Any) -> None:
    holder = claimed(checkpointer, "w")
    keys = []
    for n in range(12):
        if n % 3 == 0:
            checkpointer.record(holder, f"s{n}", n)
        entry = checkpointer.append("w", n)
        assert entry.value == n
        keys.append(entry.key)
    assert all(key.startswith(INBOX) for key in keys)
    assert keys == sorted(set(keys))
    many = together(*(partial(checkpointer.append, "w", n) for n in range(20)))
    assert len({one.key for one in many} | set(keys)) == 32


def test_discarding_removes_everything_and_fences_a_pass_in_flight(checkpointer: Any) -> None:
    holder = claimed(checkpointer, "w")
    checkpointer.record(holder, "a", 1)
    checkpointer.append("w", 2)
    assert checkpointer.discard("w") == 2
    assert checkpointer.load("w") == {}
    with pytest.raises(Fenced):
        checkpointer.record(holder, "b", 1)
    assert not checkpointer.renew(holder)
    again = claimed(checkpointer, "w")
    assert again.token > holder.token
    assert (checkpointer.record(again, "a", 3)).first
    assert checkpointer.discard("unknown") == 0


def test_a_pass_that_nobody_granted_writes_nothing(checkpointer: Any) -> None:
    with pytest.raises(Fenced):
        checkpointer.record(Pass("w", 1), "a", 1)
    assert checkpointer.load("w") == {}


@pytest.mark.parametrize("bad", [timedelta(0), timedelta(seconds=-1)])
def test_durations_must_be_positive(checkpointer: Any, bad: timedelta) -> None:
    holder = claimed(checkpointer, "w")
    calls: list[Any] = [
        lambda: checkpointer.claim("x", bad),
        lambda: checkpointer.claim("x", ms(5), bad),
        lambda: checkpointer.extend(holder, bad),
        lambda: checkpointer.extend(holder, ms(5), bad),
        lambda: checkpointer.renew(holder, bad),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="positive"):
            call()


def test_names_are_checked_before_anything_is_written(checkpointer: Any) -> None:
    holder = claimed(checkpointer, "w")
    for key in ("", "inbox:", inbox_key(1)):
        with pytest.raises(ValueError):
            checkpointer.record(holder, key, 1)
        with pytest.raises(ValueError):
            checkpointer.supply("w", key, 1)
    for call in (checkpointer.load, checkpointer.claim, checkpointer.discard):
        with pytest.raises(ValueError, match="empty"):
            call("")
    with pytest.raises(ValueError):
        checkpointer.append("", 1)
    assert checkpointer.load("w") == {}


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
def test_load_follows_a_model(checkpointer: Any, acts: list[tuple[str, str, Any]]) -> None:
    checkpointer.discard("m")
    holder = claimed(checkpointer, "m")
    model: dict[str, object] = {}
    for act, key, value in acts:
        key = f"k{key}"
        if act == "append":
            entry = checkpointer.append("m", value)
            assert entry.key not in model
            model[entry.key] = value
        elif act == "record":
            assert (checkpointer.record(holder, key, value)).value == model.setdefault(key, value)
        else:
            assert checkpointer.supply("m", key, value) == model.setdefault(key, value)
    assert list((checkpointer.load("m")).items()) == list(model.items())
