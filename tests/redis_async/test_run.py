"""Passes: steps, waits, and what a pass comes to."""

from __future__ import annotations

import contextlib
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from durably_redis_async import (
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
from support_async import sleep, together

HOUR = timedelta(hours=1)


class Count:
    """An effect that counts its runs."""

    def __init__(self, result: object = None) -> None:
        self.runs = 0
        self.result = result

    async def __call__(self) -> object:
        self.runs += 1
        return self.result


async def once(checkpointer: Any, body: Any) -> Any:
    holder = await claimed(checkpointer, "w")
    try:
        return await resume(holder, checkpointer, body)
    finally:
        await checkpointer.release(holder)


@pytest.mark.parametrize("value", [None, 0, "", [], {}, False, "x", {"a": [1]}], ids=repr)
async def test_a_step_runs_once_whatever_it_returns(checkpointer: Any, value: object) -> None:
    effect = Count(value)

    async def body(run: Run) -> object:
        return await run.step("a", effect, same)

    assert await once(checkpointer, body) == Completed(value)
    assert await once(checkpointer, body) == Completed(value)
    assert effect.runs == 1


async def test_a_step_hands_back_what_parse_makes_of_it(checkpointer: Any) -> None:
    async def body(run: Run) -> str:
        return await run.step("a", Count(5), lambda value: f"<{value}>")

    assert await once(checkpointer, body) == Completed("<5>")


async def test_an_effect_that_fails_is_not_recorded(checkpointer: Any) -> None:
    async def boom() -> object:
        raise LookupError("no")

    async def body(run: Run) -> object:
        return await run.step("a", boom, same)

    with pytest.raises(LookupError):
        await once(checkpointer, body)
    assert await checkpointer.load("w") == {}


async def test_a_sleep_records_its_deadline_once(checkpointer: Any) -> None:
    async def body(run: Run) -> object:
        await run.sleep("nap", ms(60))
        return "up"

    first = await once(checkpointer, body)
    assert isinstance(first, Sleeping) and first.key == "nap"
    assert await once(checkpointer, body) == first
    await sleep(0.08)
    assert await once(checkpointer, body) == Completed("up")


async def test_awaiting_blocks_until_the_value_is_supplied(checkpointer: Any) -> None:
    async def body(run: Run) -> object:
        return await run.awaiting("go", same)

    assert await once(checkpointer, body) == Blocked(waiting=("go",))
    await checkpointer.supply("w", "go", None)
    assert await once(checkpointer, body) == Completed(None)


async def test_receive_takes_past_a_cursor_and_replays_the_same(checkpointer: Any) -> None:
    seen: list[list[object]] = []

    async def body(run: Run) -> None:
        first = await run.receive("first", limit=2)
        rest = await run.receive("rest", after=first[-1].key)
        seen.append([one.value for one in first + rest])

    assert await once(checkpointer, body) == Blocked(listening=("first",))
    for n in range(3):
        await checkpointer.append("w", n)
    assert await once(checkpointer, body) == Completed(None)
    await checkpointer.append("w", 3)
    assert await once(checkpointer, body) == Completed(None)
    assert seen == [[0, 1, 2], [0, 1, 2]]


async def test_pending_records_that_there_was_nothing(checkpointer: Any) -> None:
    async def body(run: Run) -> int:
        return len(await run.pending("look"))

    assert await once(checkpointer, body) == Completed(0)
    await checkpointer.append("w", 1)
    assert await once(checkpointer, body) == Completed(0)


async def test_names_are_used_once_and_never_the_inboxs(checkpointer: Any) -> None:
    async def twice(run: Run) -> None:
        await run.step("a", Count(), same)
        await run.step("a", Count(), same)

    with pytest.raises(ValueError, match="twice"):
        await once(checkpointer, twice)
    for key in ("", "inbox:7"):

        async def named(run: Run, key: str = key) -> None:
            await run.sleep(key, HOUR)

        with pytest.raises(ValueError):
            await once(checkpointer, named)


async def test_a_result_that_cannot_be_recorded_names_its_step(checkpointer: Any) -> None:
    async def body(run: Run) -> object:
        return await run.step("lock", Count(object()), same)

    with pytest.raises(Unencodable, match="'lock'"):
        await once(checkpointer, body)


async def _except_exception(run: Run) -> object:
    try:
        await run.awaiting("go", same)
    except Exception:
        return "absorbed"
    return "went on"


async def _suppressed(run: Run) -> object:
    with contextlib.suppress(Exception):
        await run.awaiting("go", same)
    return "absorbed"


async def _finally(run: Run) -> object:
    try:
        return await run.awaiting("go", same)
    finally:
        await sleep(0)


async def _sibling(run: Run) -> object:
    await together(partial(run.awaiting, "go", same), partial(run.sleep, "nap", HOUR))
    return "went on"


@pytest.mark.parametrize("body", [_except_exception, _suppressed, _finally])
async def test_a_suspension_goes_through_ordinary_handlers(checkpointer: Any, body: Any) -> None:
    assert await once(checkpointer, body) == Blocked(waiting=("go",))


async def test_the_soonest_sleep_of_several_branches_wins(checkpointer: Any) -> None:
    outcome = await once(checkpointer, _sibling)
    assert isinstance(outcome, Sleeping) and outcome.key == "nap"


async def test_every_wait_of_several_branches_is_told(checkpointer: Any) -> None:
    async def body(run: Run) -> None:
        await together(
            partial(run.awaiting, "a", same), partial(run.awaiting, "b", same), partial(run.receive, "c")
        )

    assert await once(checkpointer, body) == Blocked(waiting=("a", "b"), listening=("c",))


async def test_a_failure_beats_a_suspension(checkpointer: Any) -> None:
    async def boom() -> object:
        raise LookupError("no")

    async def body(run: Run) -> None:
        await together(partial(run.awaiting, "a", same), partial(run.step, "b", boom, same))

    with pytest.raises(LookupError):
        await once(checkpointer, body)


async def test_a_bare_except_is_no_way_to_finish(checkpointer: Any) -> None:
    async def bare(run: Run) -> object:
        try:
            await run.awaiting("go", same)
        except:  # noqa: E722
            pass
        return "finished"

    async def beside(run: Run) -> object:
        try:
            await together(partial(run.awaiting, "go", same), partial(run.awaiting, "stay", same))
        except BaseExceptionGroup:
            return "finished"
        return "went on"

    async def returned(run: Run) -> object:
        try:
            await run.awaiting("go", same)
        finally:
            return "finished"  # noqa: B012

    for body in (bare, beside, returned):
        with pytest.raises(Swallowed, match="go"):
            await once(checkpointer, body)


async def test_a_lost_claim_wins_over_everything(checkpointer: Any) -> None:
    async def body(run: Run) -> None:
        await checkpointer.discard("w")
        try:
            await run.step("a", Count(), same)
        except BaseException:
            raise LookupError("a failure on top") from None

    with pytest.raises(Fenced):
        await once(checkpointer, body)


async def test_within_extends_the_claim_once_it_does_not_last_that_long() -> None:
    asked: list[timedelta] = []

    class Asked(MemoryCheckpointer):
        async def extend(self, holder: Pass, budget: timedelta, alive: timedelta = HOUR) -> bool:
            asked.append(budget)
            return await super().extend(holder, budget, alive)

    checkpointer = Asked()
    holder = await claimed(checkpointer, "w")

    async def body(run: Run) -> None:
        await run.step("short", Count(), same, within=ms(5))
        await run.step("long", Count(), same, within=HOUR)
        await run.step("again", Count(), same, within=ms(5))

    extend = extending(checkpointer, timedelta(minutes=5))
    assert await resume(holder, checkpointer, body, extend=extend) == Completed(None)
    assert asked == [HOUR]


async def test_within_on_a_lost_claim_ends_the_pass(checkpointer: Any) -> None:
    effect = Count()

    async def body(run: Run) -> None:
        await checkpointer.discard("w")
        await run.step("a", effect, same, within=HOUR)

    with pytest.raises(Fenced):
        await once(checkpointer, body)
    assert effect.runs == 0


async def test_an_interruption_names_its_key() -> None:
    assert InputNeeded("go").key == "go"
    with pytest.raises(ValueError):
        Blocked()


@pytest.mark.parametrize("record", [5, "soon", "2026-01-01T00:00:00", None])
async def test_a_sleep_over_a_record_that_is_no_deadline_says_so(checkpointer: Any, record: object) -> None:
    async def body(run: Run) -> None:
        await run.sleep("nap", ms(1))

    await checkpointer.supply("w", "nap", record)
    with pytest.raises(ValueError, match="'nap'"):
        await once(checkpointer, body)


async def test_a_read_over_a_record_that_is_no_cursor_says_so(checkpointer: Any) -> None:
    async def body(run: Run) -> object:
        return await run.pending("read")

    await checkpointer.supply("w", "read", 5)
    with pytest.raises(ValueError, match="'read'"):
        await once(checkpointer, body)


@pytest.mark.parametrize("options", [{"limit": 0}, {"limit": True}, {"limit": 1.5}, {"after": 5}], ids=repr)
async def test_a_read_is_refused_for_what_cannot_be_meant(checkpointer: Any, options: dict[str, Any]) -> None:
    async def body(run: Run) -> object:
        return await run.pending("read", **options)

    with pytest.raises((ValueError, TypeError), match=next(iter(options))):
        await once(checkpointer, body)
    assert await checkpointer.load("w") == {}


async def test_several_failures_come_as_a_group_without_the_suspensions(checkpointer: Any) -> None:
    async def body(run: Run) -> object:
        raise BaseExceptionGroup("all", [LookupError("a"), KeyError("b"), InputNeeded("go")])

    with pytest.raises(ExceptionGroup) as caught:
        await once(checkpointer, body)
    assert [type(one) for one in caught.value.exceptions] == [LookupError, KeyError]


async def test_two_failures_alone_come_as_they_are(checkpointer: Any) -> None:
    group = ExceptionGroup("all", [LookupError("a"), KeyError("b")])

    async def body(run: Run) -> object:
        raise group

    with pytest.raises(ExceptionGroup) as caught:
        await once(checkpointer, body)
    assert caught.value is group


async def test_leaving_is_no_verdict(checkpointer: Any) -> None:
    async def body(run: Run) -> object:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        await once(checkpointer, body)


async def test_a_released_or_stopped_pass_takes_no_further_step(checkpointer: Any) -> None:
    effect = Count(1)

    async def body(run: Run) -> object:
        run.lose()
        return await run.step("a", effect, same)

    with pytest.raises(Fenced):
        await once(checkpointer, body)
    assert effect.runs == 0
