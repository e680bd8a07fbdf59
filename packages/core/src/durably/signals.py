"""Control flow and errors.

An `Interruption` ends a pass without being a failure of it. It is a `BaseException`, because a body's
`except Exception` around a step must not absorb it.
"""

from __future__ import annotations

from datetime import datetime


class Interruption(BaseException):
    """A pass cannot go on here, and that is no failure."""


class Contended(Interruption):
    """Another pass holds the workflow."""

    def __init__(self, workflow: str) -> None:
        super().__init__(f"another pass holds workflow {workflow!r}")
        self.workflow = workflow


class Fenced(Interruption):
    """This pass no longer holds its workflow, so what it wanted to write was refused."""

    def __init__(self, workflow: str) -> None:
        super().__init__(f"this pass no longer holds workflow {workflow!r}")
        self.workflow = workflow


class Suspended(Interruption):
    """The body has reached a wait, at the step `key`, whose end has not come."""

    def __init__(self, key: str, waiting: str = "") -> None:
        super().__init__(f"{key!r} waits {waiting}".rstrip())
        self.key = key


class InputNeeded(Suspended):
    """The wait is for a value that somebody supplies under `key`."""

    def __init__(self, key: str) -> None:
        super().__init__(key, "for its value")


class MessageNeeded(Suspended):
    """The wait is for a message in the workflow's inbox."""

    def __init__(self, key: str) -> None:
        super().__init__(key, "for a message")


class ScheduledWakeup(Suspended):
    """The wait is for the moment `due` (aware, UTC)."""

    def __init__(self, key: str, due: datetime) -> None:
        super().__init__(key, f"until {due.isoformat()}")
        self.due = due


class Swallowed(Exception):
    """The body caught a suspension and returned as if it had finished.

    `reached` holds what it caught. Let an `Interruption` pass: re-raise it from `except BaseException`.
    """

    def __init__(self, workflow: str, reached: tuple[Suspended, ...]) -> None:
        waits = ", ".join(repr(one.key) for one in reached)
        super().__init__(
            f"the body of workflow {workflow!r} caught the suspension at {waits} and returned; "
            "an Interruption must leave the body"
        )
        self.workflow = workflow
        self.reached = reached


class CheckpointGone(Exception):
    """Records of a workflow that has not ended are gone: expired, evicted, or lost with the server's data.

    It is not run, because it would run from the top and repeat its steps. A worker parks it. To let it begin afresh,
    discard what is left (`durable.delete`) and start it again.
    """

    def __init__(self, workflow: str, there: str = "") -> None:
        found = f" (there are {there})" if there else ""
        super().__init__(
            f"records of workflow {workflow!r} are gone{found}, and it has not ended: it is not run from the top"
        )
        self.workflow = workflow
        self.there = there

    def __reduce__(self) -> tuple[type[CheckpointGone], tuple[str, str]]:
        return CheckpointGone, (self.workflow, self.there)


class EffectTorn(Exception):
    """A transacted effect failed after it had written something, so the step is neither done nor undone.

    It is not run again. Look at what it left behind, put that right, then clear the mark with the
    checkpointer's `clear_torn(workflow, key)`; the next pass runs the effect afresh.
    """

    def __init__(self, workflow: str, key: str, message: str) -> None:
        super().__init__(
            f"the effect of step {key!r} in workflow {workflow!r} failed after a write of its own: {message}. "
            "It will not run again until clear_torn(workflow, key) is called"
        )
        self.workflow = workflow
        self.key = key
        self.message = message


class EffectResultError(TypeError):
    """A transacted effect returned something other than text, and had written nothing."""


class NotDurable(Exception):
    """A write was not acknowledged in time as its durability asks. It was accepted, and stands unless the server is lost.

    `asked`: what was asked for, `reached`: what was reached, in words. Whoever comes next to the step finds the record,
    and is told the same until it has reached what is asked.
    """

    def __init__(self, workflow: str, key: str, asked: str, reached: str) -> None:
        super().__init__(
            f"{key!r} of workflow {workflow!r} is recorded, but not acknowledged: "
            f"asked for {asked}, reached: {reached}"
        )
        self.workflow = workflow
        self.key = key
        self.asked = asked
        self.reached = reached


class DurabilityUnsupported(Exception):
    """The server cannot acknowledge what a durability asks for. Nothing has been written; the message says why."""


class Unencodable(TypeError):
    """A value that the codec cannot carry. The error names workflow and step."""


class Undecodable(ValueError):
    """A recorded encoding that the codec cannot read. The error names workflow and step."""
