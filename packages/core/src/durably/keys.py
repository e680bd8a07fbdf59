"""Key names, one function per key, and the checks on what goes into them.

The braces are Redis Cluster's hash tag: all keys of one workflow share a slot, and so do a queue's keys.
"""

from __future__ import annotations

from durably.values import INBOX


def check_namespace(namespace: str) -> str:
    """Return `namespace`, or raise a `ValueError` if it is empty or holds a brace (the hash tag's mark)."""
    _check_text("a namespace", namespace)
    if not namespace or "{" in namespace or "}" in namespace:
        raise ValueError(f"a namespace must be text without braces, and not empty: {namespace!r}")
    return namespace


def check_id(workflow: str) -> str:
    """Return `workflow`, or raise if it is empty (`ValueError`) or no text (`TypeError`)."""
    _check_text("a workflow id", workflow)
    if not workflow:
        raise ValueError("a workflow id must not be empty")
    return workflow


def check_workflow_id(workflow: str, longest: int = 200) -> str:
    """Return `workflow`, or raise a `ValueError` if it makes a poor key name. For where ids are minted.

    Refused: empty, longer than `longest` bytes in UTF-8, braces, and control characters.
    """
    check_id(workflow)
    if "{" in workflow or "}" in workflow:
        raise ValueError(f"a workflow id must not hold braces, which choose the cluster slot: {workflow!r}")
    if len(workflow.encode("utf-8")) > longest:
        raise ValueError(f"a workflow id must be at most {longest} bytes long: {workflow[:40]!r}...")
    if not workflow.isprintable():
        raise ValueError(f"a workflow id must not hold control characters: {workflow!r}")
    return workflow


def check_key(key: str) -> str:
    """Return the step name `key`, or raise if it is empty, no text, or in the inbox's key space."""
    _check_text("a step name", key)
    if not key:
        raise ValueError("a step name must not be empty")
    if key.startswith(INBOX):
        raise ValueError(
            f"step names that start with {INBOX!r} belong to the inbox; choose another than {key!r}"
        )
    return key


def check_once(once: str | None) -> str | None:
    """Return `once`, or raise if it is neither `None` nor text that is not empty."""
    if once is not None:
        _check_text("once", once)
        if not once:
            raise ValueError("once must not be empty: it names a message")
    return once


def workflow_key(namespace: str, workflow: str) -> str:
    """The hash of a workflow's records."""
    return f"{namespace}:{{{workflow}}}"


def pass_key(namespace: str, workflow: str) -> str:
    """The hash of a workflow's claim."""
    return f"{namespace}:{{{workflow}}}:pass"


def said_key(namespace: str, workflow: str, nonce: str) -> str:
    """What was answered to one `append`, kept for a while in case the reply was lost."""
    return f"{namespace}:{{{workflow}}}:said:{nonce}"


def tag_of(key: str) -> str:
    """The hash tag of a key, in its braces: what decides its slot. The key itself in braces, if it has none."""
    start = key.find("{")
    end = key.find("}", start + 1)
    if start < 0 or end <= start + 1:
        return "{" + key + "}"
    return key[start : end + 1]


def ready_key(namespace: str) -> str:
    """The stream of wakeups."""
    return f"{{{namespace}}}:ready"


def sleeping_key(namespace: str) -> str:
    """The sorted set of sleepers."""
    return f"{{{namespace}}}:sleeping"


def cancelled_key(namespace: str) -> str:
    """The hash of cancellations' marks."""
    return f"{{{namespace}}}:cancelled"


def schedule_key(namespace: str) -> str:
    """The sorted set that is the set scheduler's whole queue."""
    return f"{namespace}:schedule"


def bell_key(namespace: str) -> str:
    """The list that the set scheduler's waiting readers wait at."""
    return f"{{{schedule_key(namespace)}}}:bell"


def receipts_key(namespace: str) -> str:
    """The counter that makes the set scheduler's receipts unique."""
    return f"{{{schedule_key(namespace)}}}:receipts"


def answers_key(namespace: str) -> str:
    """The hash of the set scheduler's last extensions, in case a reply was lost."""
    return f"{{{schedule_key(namespace)}}}:answers"


def answer_key(namespace: str, reader: str) -> str:
    """The last wakeup that one reader was given, in case the reply was lost."""
    return f"{{{schedule_key(namespace)}}}:answers:{reader}"


def set_slept_key(namespace: str) -> str:
    """The hash of the workflows that the set scheduler lets sleep."""
    return f"{{{schedule_key(namespace)}}}:slept"


def parked_key(namespace: str) -> str:
    """The hash of the stream scheduler's parked workflows."""
    return f"{{{namespace}}}:parked"


def set_parked_key(namespace: str) -> str:
    """The hash of the set scheduler's parked workflows."""
    return f"{{{schedule_key(namespace)}}}:parked"


def unparked_key(parked: str, nonce: str) -> str:
    """What was answered to one `unpark`, kept for a while in case the reply was lost."""
    return f"{parked}:said:{nonce}"


def dropped_key(namespace: str) -> str:
    """The hash of when workflows of the stream scheduler were cancelled."""
    return f"{{{namespace}}}:dropped"


def set_dropped_key(namespace: str) -> str:
    """The hash of when workflows of the set scheduler were cancelled."""
    return f"{{{schedule_key(namespace)}}}:dropped"


def sweep_key(home: str) -> str:
    """The hash of how far the sweep has come. `home`: the queue's hash tag."""
    return f"{{{home}}}:sweep"


def swept_key(home: str, nonce: str) -> str:
    """What was answered to one call of a sweep, kept for a while in case the reply was lost."""
    return f"{{{home}}}:sweep:said:{nonce}"


def sweep_lock_key(home: str) -> str:
    """Which worker sweeps. `home`: the queue's hash tag."""
    return f"{{{home}}}:sweeping"


def _check_text(what: str, text: str) -> str:
    """Return `text`, or raise: `TypeError` if it is no text or is formatted as another, `ValueError` if it has no UTF-8.

    Keys are made by formatting and members by encoding: a name that gives two texts would be in two places.
    """
    if type(text) is str and text.isascii():
        return text
    if not isinstance(text, str):
        raise TypeError(f"{what} must be text, not {type(text).__name__}: {text!r}")
    if f"{text}" != str.__str__(text):
        raise TypeError(f"{what} must be plain text: pass the value of {text!r}")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(f"{what} must be text that has a UTF-8 encoding: {text!r}: {error}") from None
    return text
