"""What a type checker knows of a step's result. mypy reads this file; running it checks nothing more."""

from __future__ import annotations

from typing import Any, assert_type

import durably_redis_async as there
import durably_redis_sync as here
from durably import Entry, as_type


class Receipt:
    """A result."""


async def charge() -> object:
    return None


def charge_here() -> object:
    return None


def number(value: object) -> int:
    return 1


async def body(run: there.Run) -> None:
    assert_type(await run.step("a", charge, Receipt), Receipt)
    assert_type(await run.step("b", charge, number), int)
    assert_type(await run.step("c", charge, as_type(Receipt)), Receipt)
    assert_type(await run.step("d", charge, list[int]), list[int])
    assert_type(await run.transact("e", there.LuaEffect("return '1'"), Receipt), Receipt)
    assert_type(await run.awaiting("f", str), str)
    assert_type(await run.receive("g"), tuple[Entry[object], ...])
    assert_type(await run.receive("h", type=Receipt), tuple[Entry[Receipt], ...])
    assert_type(await run.pending("i", type=number), tuple[Entry[int], ...])


def body_here(run: here.Run) -> None:
    assert_type(run.step("a", charge_here, Receipt), Receipt)
    assert_type(run.step("b", charge_here, number), int)
    assert_type(run.step("c", charge_here, as_type(Receipt)), Receipt)
    assert_type(run.step("d", charge_here, list[int]), list[int])
    assert_type(run.transact("e", here.LuaEffect("return '1'"), Receipt), Receipt)
    assert_type(run.awaiting("f", str), str)
    assert_type(run.receive("g"), tuple[Entry[object], ...])
    assert_type(run.receive("h", type=Receipt), tuple[Entry[Receipt], ...])
    assert_type(run.pending("i", type=number), tuple[Entry[int], ...])


def test_the_file_is_there_for_the_type_checker() -> None:
    bodies: list[Any] = [body, body_here]
    assert all(callable(one) for one in bodies)
