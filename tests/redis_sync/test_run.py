# Generated from tests/redis_async/test_run.py by twin.py. Edit that file.
"""Passes: steps, waits, and what a pass comes to."""

from __future__ import annotations

import contextlib
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from durably_redis_sync import (
    Blocked,
    Completed,
    Fenced,
    InputNeeded,
    MemoryCheckpointer,
    Pass,
    Run,
    Sleeping,
    Swallowed,
    Unencodable,
    claimed,
    extending,
    resume,
)
from support import ms, same
from support_sync import sleep, together

HOUR = timedelta(hours=1)


class Count:
    """An effect that counts its runs."""

    def __init__(self, result: object = None) -> None:
        self.runs = 0
        self.result = result

    def __call__(self) -> object:
        self.runs += 1
        return self.result


def once(checkpointer: Any, body: Any) -> Any:
    holder = claimed(checkpointer, "w")
    try:
        return resume(holder, checkpointer, body)
    finally:
        checkpointer.release(holder)


@pytest.mark.parametrize("value", [None, 0, "", [], {}, False, "x", {"a": [1]}], ids=repr)
def test_a_step_runs_once_whatever_it_returns(checkpointer: Any, value: object) -> None:
    effect = Count(value)

    def body(run: Run) -> object:
        return run.step("a", effect, same)

    assert once(checkpointer, body) == Completed(value)
    assert once(checkpointer, body) == Completed(value)
    assert effect.runs == 1


def test_a_step_hands_back_what_parse_makes_of_it(checkpointer: Any) -> None:
    def body(run: Run) -> str:
        return run.step("a", Count(5), lambda value: f"<{value}>")

    assert once(checkpointer, body) == Completed("<5>")


def test_an_effect_that_fails_is_not_recorded(checkpointer: Any) -> None:
    def boom() -> object:
        raise LookupError("no")

    def body(run: Run) -> object:
        return run.step("a", boom, same)

    with pytest.raises(LookupError):
        once(checkpointer, body)
    assert checkpointer.load("w") == {}


def test_a_sleep_records_its_deadline_once(checkpointer: Any) -> None:
    def body(run: Run) -> object:
        run.sleep("nap", ms(60))
        return "up"

    first = once(checkpointer, body)
    assert isinstance(first, Sleeping) and first.key == "nap"
    assert once(checkpointer, body) == first
    sleep(0.08)
    assert once(checkpointer, body) == Completed("up")


def test_awaiting_blocks_until_the_value_is_supplied(checkpointer: Any) -> None:
    def body(run: Run) -> object:
        return run.awaiting("go", same)

    assert once(checkpointer, body) == Blocked(waiting=("go",))
    checkpointer.supply("w", "go", None)
    assert once(checkpointer, body) == Completed(None)


def test_receive_takes_past_a_cursor_and_replays_the_same(checkpointer: Any) -> None:
    seen: list[list[object]] = []

    def body(run: Run) -> None:
        first = run.receive("first", limit=2)
        rest = run.receive("rest", after=first[-1].key)
        seen.append([one.value for one in first + rest])

    assert once(checkpointer, body) == Blocked(listening=("first",))
    for n in range(3):
        checkpointer.append("w", n)
    assert once(checkpointer, body) == Completed(None)
    checkpointer.append("w", 3)
    assert once(checkpointer, body) == Completed(None)
    assert seen == [[0, 1, 2], [0, 1, 2]]


def test_pending_records_that_there_was_nothing(checkpointer: Any) -> None:
    def body(run: Run) -> int:
        return len(run.pending("look"))

    assert once(checkpointer, body) == Completed(0)
    checkpointer.append("w", 1)
    assert once(checkpointer, body) == Completed(0)


def test_names_are_used_once_and_never_the_inboxs(checkpointer: Any) -> None:
    def twice(run: Run) -> None:
        run.step("a", Count(), same)
        run.step("a", Count(), same)

    with pytest.raises(ValueError, match="twice"):
        once(checkpointer, twice)
    for key in ("", "inbox:7"):

        def named(run: Run, key: str = key) -> None:
            run.sleep(key, HOUR)

        with pytest.raises(ValueError):
            once(checkpointer, named)


def test_a_result_that_cannot_be_recorded_names_its_step(checkpointer: Any) -> None:
    def body(run: Run) -> object:
        return run.step("lock", Count(object()), same)

    with pytest.raises(Unencodable, match="'lock'"):
        once(checkpointer, body)


def _except_exception(run: Run) -> object:
    try:
        run.awaiting("go", same)
    except Exception:
        return "absorbed"
    return "went on"


def _suppressed(run: Run) -> object:
    with contextlib.suppress(Exception):
        run.awaiting("go", same)
    return "absorbed"


def _finally(run: Run) -> object:
    try:
        return run.awaiting("go", same)
    finally:
        sleep(0)


def _sibling(run: Run) -> object:
    together(partial(run.awaiting, "go", same), partial(run.sleep, "nap", HOUR))
    return "went on"


@pytest.mark.parametrize("body", [_except_exception, _suppressed, _finally])
def test_a_suspension_goes_through_ordinary_handlers(checkpointer: Any, body: Any) -> None:
    assert once(checkpointer, body) == Blocked(waiting=("go",))


def test_the_soonest_sleep_of_several_branches_wins(checkpointer: Any) -> None:
    outcome = once(checkpointer, _sibling)
    assert isinstance(outcome, Sleeping) and outcome.key == "nap"


def test_every_wait_of_several_branches_is_told(checkpointer: Any) -> None:
    def body(run: Run) -> None:
        together(
            partial(run.awaiting, "a", same), partial(run.awaiting, "b", same), partial(run.receive, "c")
        )

    assert once(checkpointer, body) == Blocked(waiting=("a", "b"), listening=("c",))


def test_a_failure_beats_a_suspension(checkpointer: Any) -> None:
    def boom() -> object:
        raise LookupError("no")

    def body(run: Run) -> None:
        together(partial(run.awaiting, "a", same), partial(run.step, "b", boom, same))

    with pytest.raises(LookupError):
        once(checkpointer, body)


def test_a_bare_except_is_no_way_to_finish(checkpointer: Any) -> None:
    def bare(run: Run) -> object:
        try:
            run.awaiting("go", same)
        except:  # noqa: E722
            pass
        return "finished"

    def beside(run: Run) -> object:
        try:
            together(partial(run.awaiting, "go", same), partial(run.awaiting, "stay", same))
        except BaseExceptionGroup:
            return "finished"
        return "went on"

    def returned(run: Run) -> object:
        try:
            run.awaiting("go", same)
        finally:
            return "finished"  # noqa: B012

    for body in (bare, beside, returned):
        with pytest.raises(Swallowed, match="go"):
            once(checkpointer, body)


def test_a_lost_claim_wins_over_everything(checkpointer: Any) -> None:
    def body(run: Run) -> None:
        checkpointer.discard("w")
        try:
            run.step("a", Count(), same)
        except BaseException:
            raise LookupError("a failure on top") from None

    with pytest.raises(Fenced):
        once(checkpointer, body)


def test_within_extends_the_claim_once_it_does_not_last_that_long() -> None:
    asked: list[timedelta] = []

    class Asked(MemoryCheckpointer):
        def extend(self, holder: Pass, budget: timedelta, alive: timedelta = HOUR) -> bool:
            asked.append(budget)
            return super().extend(holder, budget, alive)

    checkpointer = Asked()
    holder = claimed(checkpointer, "w")

    def body(run: Run) -> None:
        run.step("short", Count(), same, within=ms(5))
        run.step("long", Count(), same, within=HOUR)
        run.step("again", Count(), same, within=ms(5))

    extend = extending(checkpointer, timedelta(minutes=5))
    assert resume(holder, checkpointer, body, extend=extend) == Completed(None)
    assert asked == [HOUR]


def test_within_on_a_lost_claim_ends_the_pass(checkpointer: Any) -> None:
    effect = Count()

    def body(run: Run) -> None:
        checkpointer.discard("w")
        run.step("a", effect, same, within=HOUR)

    with pytest.raises(Fenced):
        once(checkpointer, body)
    assert effect.runs == 0


def test_an_interruption_names_its_key() -> None:
    assert InputNeeded("go").key == "go"
    with pytest.raises(ValueError):
        Blocked()


@pytest.mark.parametrize("record", [5, "soon", "2026-01-01T00:00:00", None])
def test_a_sleep_over_a_record_that_is_no_deadline_says_so(checkpointer: Any, record: object) -> None:
    def body(run: Run) -> None:
        run.sleep("nap", ms(1))

    checkpointer.supply("w", "nap", record)
    with pytest.raises(ValueError, match="'nap'"):
        once(checkpointer, body)


def test_a_read_over_a_record_that_is_no_cursor_says_so(checkpointer: Any) -> None:
    def body(run: Run) -> object:
        return run.pending("read")

    checkpointer.supply("w", "read", 5)
    with pytest.raises(ValueError, match="'read'"):
        once(checkpointer, body)


@pytest.mark.parametrize("options", [{"limit": 0}, {"limit": True}, {"limit": 1.5}, {"after": 5}], ids=repr)
def test_a_read_is_refused_for_what_cannot_be_meant(checkpointer: Any, options: dict[str, Any]) -> None:
    def body(run: Run) -> object:
        return run.pending("read", **options)

    with pytest.raises((ValueError, TypeError), match=next(iter(options))):
        once(checkpointer, body)
    assert checkpointer.load("w") == {}


def test_several_failures_come_as_a_group_without_the_suspensions(checkpointer: Any) -> None:
    def body(run: Run) -> object:
        raise BaseExceptionGroup("all", [LookupError("a"), KeyError("b"), InputNeeded("go")])

    with pytest.raises(ExceptionGroup) as caught:
        once(checkpointer, body)
    assert [type(one) for one in caught.value.exceptions] == [LookupError, KeyError]


def test_two_failures_alone_come_as_they_are(checkpointer: Any) -> None:
    group = ExceptionGroup("all", [LookupError("a"), KeyError("b")])

    def body(run: Run) -> object:
        raise group

    with pytest.raises(ExceptionGroup) as caught:
        once(checkpointer, body)
    assert caught.value is group


def test_leaving_is_no_verdict(checkpointer: Any) -> None:
    def body(run: Run) -> object:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        once(checkpointer, body)


def test_a_released_or_stopped_pass_takes_no_further_step(checkpointer: Any) -> None:
    effect = Count(1)

    def body(run: Run) -> object:
        run.lose()
        return run.step("a", effect, same)

    with pytest.raises(Fenced):
        once(checkpointer, body)
    assert effect.runs == 0
