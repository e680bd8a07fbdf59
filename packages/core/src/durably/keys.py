"""Key names, one function per key, and the checks on what goes into them.

The braces are Redis Cluster's hash tag: all keys of one workflow share a slot, and so do a queue's keys.
"""

from __future__ import annotations

from durably.values import INBOX


def check_namespace(namespace: str) -> str:
    """Return `namespace`, or raise a `ValueError` if it is empty or holds a brace (the hash tag's mark)."""
    if not isinstance(namespace, str):
        raise TypeError(f"a namespace must be text, not {type(namespace).__name__}")
    if not namespace or "{" in namespace or "}" in namespace:
        raise ValueError(f"a namespace must be text without braces, and not empty: {namespace!r}")
    return namespace


def check_id(workflow: str) -> str:
    """Return `workflow`, or raise if it is empty (`ValueError`) or no text (`TypeError`)."""
    if not isinstance(workflow, str):
        raise TypeError(f"a workflow id must be text, not {type(workflow).__name__}: {workflow!r}")
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
    if len(workflow.encode("utf-8", "surrogatepass")) > longest:
        raise ValueError(f"a workflow id must be at most {longest} bytes long: {workflow[:40]!r}...")
    if not workflow.isprintable():
        raise ValueError(f"a workflow id must not hold control characters: {workflow!r}")
    return workflow


def check_key(key: str) -> str:
    """Return the step name `key`, or raise if it is empty, no text, or in the inbox's key space."""
    if not isinstance(key, str):
        raise TypeError(f"a step name must be text, not {type(key).__name__}: {key!r}")
    if not key:
        raise ValueError("a step name must not be empty")
    if key.startswith(INBOX):
        raise ValueError(
            f"step names that start with {INBOX!r} belong to the inbox; choose another than {key!r}"
        )
    return key


def workflow_key(namespace: str, workflow: str) -> str:
    """The hash of a workflow's records."""
    return f"{namespace}:{{{workflow}}}"


def pass_key(namespace: str, workflow: str) -> str:
    """The hash of a workflow's claim."""
    return f"{namespace}:{{{workflow}}}:pass"


def said_key(namespace: str, workflow: str, nonce: str) -> str:
    """What was answered to one `append`, kept for a while in case the reply was lost."""
    return f"{namespace}:{{{workflow}}}:said:{nonce}"


def ready_key(namespace: str) -> str:
    """The stream of wakeups."""
    return f"{{{namespace}}}:ready"


def sleeping_key(namespace: str) -> str:
    """The sorted set of sleepers."""
    return f"{{{namespace}}}:sleeping"


def cancelled_key(namespace: str) -> str:
    """The hash of cancellations under way."""
    return f"{{{namespace}}}:cancelled"


def schedule_key(namespace: str) -> str:
    """The sorted set that is the set scheduler's whole queue."""
    return f"{namespace}:schedule"


def receipts_key(namespace: str) -> str:
    """The counter that makes the set scheduler's receipts unique."""
    return f"{{{schedule_key(namespace)}}}:receipts"


def answers_key(namespace: str) -> str:
    """The hash of the set scheduler's last answers, in case a reply was lost."""
    return f"{{{schedule_key(namespace)}}}:answers"
