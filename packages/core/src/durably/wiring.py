"""The wiring of a graph, checked before anything runs. The standard library's `graphlib` does the sorting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from durably.exact import came_back
from durably.keys import check_key


class WiringError(ValueError):
    """A graph whose nodes do not fit together; the message names the node."""


class Unsurvivable(TypeError):
    """A node's result that would come back from the store as something else; the message names the node."""


def check_wiring(inputs: Sequence[str], nodes: Mapping[str, Sequence[str]], output: str) -> tuple[str, ...]:
    """The nodes' names in an order in which they can run, or `WiringError`.

    `nodes` maps each name to the names it depends on. Refused: a name that is no step name, one used twice, a
    dependency that is not there, a cycle, an output that is not there.
    """
    known = set(inputs) | set(nodes)
    if len(set(inputs)) != len(inputs) or set(inputs) & set(nodes):
        raise WiringError("an input's name is used twice")
    for name in known:
        try:
            check_key(name)
        except (TypeError, ValueError) as error:
            raise WiringError(f"node {name!r}: {error}") from None
    for name, needs in nodes.items():
        for one in needs:
            if one not in known:
                raise WiringError(f"node {name!r} depends on {one!r}, which is not in the graph")
    if output not in known:
        raise WiringError(f"the output {output!r} is not in the graph")
    try:
        order = tuple(TopologicalSorter(nodes).static_order())
    except CycleError as error:
        raise WiringError(f"the nodes depend on each other: {' -> '.join(error.args[1])}") from None
    return tuple(name for name in order if name in nodes)


def survives(before: object, after: object) -> bool:
    """Whether two values are equal in value and type at every level."""
    return came_back(before, after)
