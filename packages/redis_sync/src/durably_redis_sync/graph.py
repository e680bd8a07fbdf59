# Generated from packages/redis_async/src/durably_redis_async/graph.py by twin.py. Edit that file.
"""A graph of named nodes, compiled once, run durably: each node's result is recorded before what depends on it starts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar, cast

from durably.records import carry
from durably.signals import Unencodable
from durably.values import Pass
from durably.wiring import Unsurvivable, WiringError, check_wiring, survives

from durably_redis_sync._concurrency import CANCELLED, Mailbox, Nursery, Returning
from durably_redis_sync.interfaces import Checkpointer
from durably_redis_sync.proving import confirmed, prepared

__all__ = ["Compiled", "CompiledGraph", "Graph", "Node", "Unsurvivable", "WiringError", "run_durably"]

T = TypeVar("T")
Out = TypeVar("Out")
Out_co = TypeVar("Out_co", covariant=True)


@dataclass(frozen=True)
class Node(Generic[T]):
    """A handle on a node, or an input, whose result is a `T`."""

    name: str


class Graph:
    """Nodes under construction: `input` and `node` give handles, `compile` checks the wiring."""

    def __init__(self) -> None:
        self._inputs: list[str] = []
        self._nodes: dict[str, tuple[Returning[..., Any], tuple[str, ...]]] = {}

    def input(self, name: str) -> Node[Any]:
        """An entry, fed by position when the graph runs."""
        self._fresh(name)
        self._inputs.append(name)
        return Node(name)

    def node(self, name: str, call: Returning[..., T], *needs: Node[Any]) -> Node[T]:
        """A node that runs `call` with the results of `needs`. Raises `WiringError` for a name used twice."""
        self._fresh(name)
        self._nodes[name] = (call, tuple(one.name for one in needs))
        return Node(name)

    def compile(self, output: Node[Out]) -> CompiledGraph[Out]:
        """The graph, checked. Raises `WiringError` naming what does not fit."""
        order = check_wiring(
            self._inputs, {name: needs for name, (_, needs) in self._nodes.items()}, output.name
        )
        return CompiledGraph(tuple(self._inputs), output.name, {name: self._nodes[name] for name in order})

    def _fresh(self, name: str) -> None:
        if name in self._inputs or name in self._nodes:
            raise WiringError(f"node {name!r} is in the graph already")


class Compiled(Protocol[Out_co]):
    """What `run_durably` asks of a graph."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """The keys of the entries, fed by position."""
        ...

    @property
    def output(self) -> str:
        """The key whose result the run returns."""
        ...

    def stream(self, *values: object, checkpoint: Mapping[str, object]) -> Iterator[tuple[str, object]]:
        """Each node's key and result as it lands, less what `checkpoint` holds.

        Nothing downstream of a result starts before the next item is asked for, and then it is given what
        `checkpoint` holds under that key. Closing the stream stops the nodes that run.
        """
        ...


@dataclass(frozen=True)
class CompiledGraph(Generic[Out]):
    """A graph whose wiring was checked."""

    inputs: tuple[str, ...]
    output: str
    nodes: Mapping[str, tuple[Returning[..., Any], tuple[str, ...]]] = field(repr=False)

    def stream(self, *values: object, checkpoint: Mapping[str, object]) -> Iterator[tuple[str, object]]:
        """See `Compiled.stream`. Raises `ValueError` for another number of values than there are inputs."""
        if len(values) != len(self.inputs):
            raise ValueError(
                f"this graph takes {len(self.inputs)} values ({', '.join(self.inputs)}), not {len(values)}"
            )
        results = dict(zip(self.inputs, values, strict=True))
        results.update({name: checkpoint[name] for name in self.nodes if name in checkpoint})
        waiting = {name: needs for name, (_, needs) in self.nodes.items() if name not in results}
        landed: Mailbox[tuple[str, object, BaseException | None]] = Mailbox()

        def run(name: str) -> None:
            call, needs = self.nodes[name]
            try:
                result = call(*(results[one] for one in needs))
            except CANCELLED:
                landed.put((name, None, RuntimeError(f"node {name!r} was cancelled")))
                raise
            except BaseException as error:
                landed.put((name, None, error))
            else:
                landed.put((name, result, None))

        running = 0
        failure: BaseException | None = None
        with Nursery() as nursery:
            while waiting or running:
                startable = [name for name, needs in waiting.items() if all(one in results for one in needs)]
                for name in startable:
                    del waiting[name]
                    running += 1
                    nursery.start(run, name)
                item = landed.get()
                assert item is not None
                running -= 1
                name, result, failure = item
                if failure is not None:
                    break
                try:
                    yield name, result
                except GeneratorExit:
                    break
                results[name] = checkpoint.get(name, result)
            nursery.cancel()
        if failure is not None:
            raise failure


def run_durably(graph: Compiled[Out], checkpointer: Checkpointer[Any], holder: Pass, *values: object) -> Out:
    """Run a compiled graph under a claim, recording each node's result under its name; returns the output's.

    What is recorded is not run again. A node's dependents start only when its result is recorded, and are given what
    is recorded. Raises `ValueError` for a graph whose output is one of its inputs, `Unsurvivable` naming the node
    whose result would not come back equal in value and type, `Fenced` if the claim is lost, and what a node raises.
    """
    if graph.output in graph.inputs:
        raise ValueError(f"the output {graph.output!r} is one of the graph's inputs: there is nothing to run")
    if len(values) != len(graph.inputs):
        raise ValueError(
            f"this graph takes {len(graph.inputs)} values ({', '.join(graph.inputs)}), not {len(values)}"
        )
    prepared(checkpointer, None)
    checkpoint = checkpointer.load(holder.workflow)
    for name in list(checkpoint)[:1]:
        confirmed(checkpointer, holder, name)
    with closing(cast(Any, graph.stream(*values, checkpoint=checkpoint))) as stream:
        for name, result in stream:
            checkpoint[name] = _recorded(checkpointer, holder, name, result)
    return cast(Out, checkpoint[graph.output])


def _recorded(checkpointer: Checkpointer[Any], holder: Pass, name: str, result: object) -> object:
    codec = getattr(checkpointer, "codec", None)
    try:
        if codec is not None:
            _check_survives(name, result, carry(codec, holder.workflow, name, result, None)[1])
        recorded = checkpointer.record(holder, name, result)
    except Unencodable as error:
        raise Unsurvivable(f"the result of node {name!r} cannot be recorded: {error}") from error
    if recorded.first:
        _check_survives(name, result, recorded.value)
    return recorded.value


def _check_survives(name: str, result: object, back: object) -> None:
    if not survives(result, back):
        raise Unsurvivable(
            f"the result of node {name!r} comes back from the store as something else: {result!r} as {back!r}"
        )
