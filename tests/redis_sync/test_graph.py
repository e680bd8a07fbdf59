# Generated from tests/redis_async/test_graph.py by twin.py. Edit that file.
"""Graphs, run durably."""

from __future__ import annotations

from typing import Any

import pytest
from durably_redis_sync import Fenced, Graph, InputNeeded, Unsurvivable, WiringError, claimed, run_durably
from support_sync import Event, sleep, wait


def diamond(runs: list[str]) -> Any:
    graph = Graph()
    start = graph.input("start")

    def double(n: int) -> int:
        runs.append("double")
        sleep(0.02)
        return n * 2

    def triple(n: int) -> int:
        runs.append("triple")
        sleep(0.02)
        return n * 3

    def add(a: int, b: int) -> int:
        runs.append("add")
        return a + b

    left = graph.node("left", double, start)
    right = graph.node("right", triple, start)
    return graph.compile(graph.node("sum", add, left, right))


def test_a_graph_runs_and_what_is_recorded_is_not_run_again(checkpointer: Any) -> None:
    runs: list[str] = []
    holder = claimed(checkpointer, "w")
    assert run_durably(diamond(runs), checkpointer, holder, 5) == 25
    assert sorted(runs) == ["add", "double", "triple"]
    assert run_durably(diamond(runs), checkpointer, holder, 5) == 25
    assert len(runs) == 3
    assert checkpointer.load("w") == {"left": 10, "right": 15, "sum": 25}


def test_siblings_run_side_by_side(checkpointer: Any) -> None:
    graph = Graph()
    left, right = Event(), Event()

    def meet_right() -> int:
        left.set()
        assert wait(right, 5)
        return 1

    def meet_left() -> int:
        right.set()
        assert wait(left, 5)
        return 1

    def add(a: int, b: int) -> int:
        return a + b

    compiled = graph.compile(graph.node("c", add, graph.node("a", meet_right), graph.node("b", meet_left)))
    assert run_durably(compiled, checkpointer, claimed(checkpointer, "w")) == 2


def test_dependents_are_given_what_is_recorded_and_start_after_it(checkpointer: Any) -> None:
    holder = claimed(checkpointer, "w")
    checkpointer.record(holder, "left", 100)
    runs: list[str] = []
    assert run_durably(diamond(runs), checkpointer, holder, 5) == 115
    assert "double" not in runs


def test_a_failure_is_raised_when_its_siblings_have_ended_and_nothing_new_starts(
    checkpointer: Any,
) -> None:
    graph = Graph()
    ended = Event()
    added: list[int] = []

    def fails() -> int:
        raise LookupError("no")

    def waits() -> int:
        try:
            sleep(0.1)
        finally:
            ended.set()
        return 1

    def add(a: int, b: int) -> int:
        added.append(a + b)
        return a + b

    compiled = graph.compile(graph.node("c", add, graph.node("b", waits), graph.node("a", fails)))
    with pytest.raises(LookupError):
        run_durably(compiled, checkpointer, claimed(checkpointer, "w"))
    assert ended.is_set() and added == []


def test_a_node_may_be_interrupted_like_any_step(checkpointer: Any) -> None:
    graph = Graph()

    def waits() -> int:
        raise InputNeeded("go")

    with pytest.raises(InputNeeded):
        run_durably(graph.compile(graph.node("a", waits)), checkpointer, claimed(checkpointer, "w"))


@pytest.mark.parametrize(
    "result",
    [(1, 2), {1: 2}, object(), float("nan"), {"a": (1,)}],
    ids=["tuple", "key", "object", "nan", "inner tuple"],
)
def test_a_result_that_does_not_survive_fails_naming_its_node_and_is_not_recorded(
    checkpointer: Any, result: object
) -> None:
    graph = Graph()

    def gives() -> object:
        return result

    compiled = graph.compile(graph.node("odd", gives))
    holder = claimed(checkpointer, "w")
    for _ in range(2):
        with pytest.raises(Unsurvivable, match="odd"):
            run_durably(compiled, checkpointer, holder)
    assert checkpointer.load("w") == {}


def test_a_lost_claim_ends_the_run(checkpointer: Any) -> None:
    holder = claimed(checkpointer, "w")
    checkpointer.discard("w")
    with pytest.raises(Fenced):
        run_durably(diamond([]), checkpointer, holder, 5)


def test_wrong_graphs_and_values_are_refused(checkpointer: Any) -> None:
    holder = claimed(checkpointer, "w")
    graph = Graph()
    start = graph.input("start")
    with pytest.raises(ValueError, match="inputs"):
        run_durably(graph.compile(start), checkpointer, holder, 1)
    with pytest.raises(ValueError, match="takes 1 values"):
        run_durably(diamond([]), checkpointer, holder)
    with pytest.raises(WiringError, match="start"):
        graph.input("start")
