"""The checkpointer's scripts: what each is called with, and what its answer means. Pure.

Refusals of ours are error replies that begin with a code; `refusal` takes them apart. Every other error of the
server is not ours and stays as it is.
"""

from __future__ import annotations

from datetime import timedelta

from durably.durations import milliseconds
from durably.keys import pass_key, said_key, workflow_key
from durably.lua import read_script
from durably.signals import CheckpointGone, EffectResultError, EffectTorn, Fenced
from durably.values import CANCELLED, Blocked, Completed, Pass, Sleeping

TAKE = read_script("take")
STRETCH = read_script("stretch")
STILL_HERE = read_script("still_here")
HAND_BACK = read_script("hand_back")
LOOK = read_script("look")
WRITE = read_script("write")
OFFER = read_script("offer")
FILE_AWAY = read_script("file_away")
FORGET = read_script("forget")
TRANSACT = read_script("transact")
PROVE = read_script("prove")

REMEMBERED = 600_000
"""How long the answer to an `append` is kept for a repeated call, in ms: longer than a client goes on repeating."""

Request = tuple[list[str], list[str | int | float | bytes]]


def refusal(message: str) -> tuple[str, str]:
    """The code and the text of an error reply of ours (`FENCED`, `TORN`, `NOTTEXT`, `GONE`), or `("", message)`."""
    for code in ("FENCED", "TORN", "NOTTEXT", "GONE"):
        if message.startswith(code + " "):
            return code, message[len(code) + 1 :]
    return "", message


def refused(message: str, workflow: str, key: str) -> BaseException | None:
    """The error that a refusal of ours stands for; `None` for an error that is not ours."""
    code, text = refusal(message)
    if code == "FENCED":
        return Fenced(workflow)
    if code == "GONE":
        return CheckpointGone(workflow, text)
    if code == "TORN":
        return EffectTorn(workflow, key, text)
    if code == "NOTTEXT":
        return EffectResultError(
            f"step {key!r} of workflow {workflow!r}: {text}; return the result's encoding"
        )
    return None


def take(
    namespace: str, workflow: str, budget: int, alive: int, ttl: int, nonce: str, slept: bool = False
) -> Request:
    """Durations in ms. `slept`: whether the wakeup came out of a sleep."""
    return _claim(namespace, workflow), [budget, alive, ttl, nonce, "1" if slept else ""]


def stretch(namespace: str, holder: Pass, budget: int, alive: int, ttl: int) -> Request:
    """Durations in ms."""
    return _claim(namespace, holder.workflow), [holder.token, budget, alive, ttl]


def still_here(namespace: str, holder: Pass, alive: int, ttl: int) -> Request:
    """Durations in ms."""
    return _claim(namespace, holder.workflow), [holder.token, alive, ttl]


def hand_back(
    namespace: str,
    holder: Pass,
    ttl: int,
    outcome: object = None,
    abandon_after: timedelta | None = None,
    keep_failed: timedelta | None = None,
    known: int | None = None,
) -> Request:
    """`ttl` in ms. `outcome`: what the pass came to, `None` if that is not known, an exception if it failed. `known`:
    how many records the pass knows of."""
    keys = _claim(namespace, holder.workflow)
    failed = "" if keep_failed is None else milliseconds(keep_failed)
    if isinstance(outcome, Sleeping):
        state, when = "sleeps", str(int(outcome.due.timestamp() * 1000))
    elif isinstance(outcome, Blocked):
        state, when = "waits", "" if abandon_after is None else str(milliseconds(abandon_after))
    elif isinstance(outcome, Completed):
        state, when = "ended", ""
    elif outcome == CANCELLED:
        state, when = "cancelled", ""
    else:
        state, when = "" if outcome is None else "failed", ""
    return keys, [holder.token, ttl, state, when, failed, "" if known is None else known]


def is_complete(answer: int) -> bool:
    """Whether the server had all that the pass knew of, by what `HAND_BACK` answered."""
    return answer != 2


def _claim(namespace: str, workflow: str) -> list[str]:
    return [pass_key(namespace, workflow), workflow_key(namespace, workflow)]


def _both(namespace: str, workflow: str) -> list[str]:
    return [workflow_key(namespace, workflow), pass_key(namespace, workflow)]


def write(
    namespace: str, holder: Pass, key: str, encoding: str | bytes, ttl: int, proves: bool = False
) -> Request:
    """`ttl` in ms. `proves`: an acknowledgement follows, here as below."""
    return _both(namespace, holder.workflow), [key, encoding, holder.token, ttl, _flag(proves)]


def look(namespace: str, holder: Pass, key: str, proves: bool = False) -> Request:
    """The look at a step's record."""
    return _both(namespace, holder.workflow), [key, holder.token, _flag(proves)]


def offer(
    namespace: str, workflow: str, key: str, encoding: str | bytes, ttl: int, proves: bool = False
) -> Request:
    """`ttl` in ms."""
    return _both(namespace, workflow), [key, encoding, ttl, _flag(proves)]


def file_away(
    namespace: str,
    workflow: str,
    encoding: str | bytes,
    ttl: int,
    nonce: str,
    once: str | None = None,
    proves: bool = False,
) -> Request:
    """`ttl` in ms. `once`: the message's own name."""
    keys = [*_both(namespace, workflow), said_key(namespace, workflow, nonce)]
    return keys, [encoding, ttl, REMEMBERED, _flag(proves), once or ""]


def prove(namespace: str, holder: Pass) -> Request:
    """For what a pass was handed."""
    return [pass_key(namespace, holder.workflow)], [holder.token]


def _flag(one: bool) -> str:
    return "1" if one else ""


def forget(namespace: str, workflow: str, ttl: int, nonce: str) -> Request:
    """`ttl` in ms."""
    return _both(namespace, workflow), [ttl, nonce]


def transact(
    namespace: str,
    holder: Pass,
    key: str,
    ttl: int,
    kind: str,
    keys: tuple[str, ...],
    args: tuple[str | int | float | bytes, ...],
    proves: bool = False,
) -> Request:
    """`ttl` in ms; `kind` is `json` where the encoding is, else empty."""
    return [*_both(namespace, holder.workflow), *keys], [key, holder.token, ttl, kind, _flag(proves), *args]
