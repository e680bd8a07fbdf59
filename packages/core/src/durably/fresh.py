"""Names that are this process's own: a child made by `fork` gets others than its parent."""

from __future__ import annotations

import os
import weakref
from typing import Any
from uuid import uuid4

_owners: weakref.WeakValueDictionary[tuple[int, str], Any] = weakref.WeakValueDictionary()


class Fresh(str):
    """A name that nobody else has."""


def fresh() -> str:
    """A new one."""
    return Fresh(uuid4().hex)


def renew_at_fork(owner: object, attribute: str) -> None:
    """Give `owner` a new name in the processes forked from this one, unless its name was chosen by somebody."""
    if isinstance(getattr(owner, attribute), Fresh):
        _owners[id(owner), attribute] = owner


def _renew() -> None:
    for (_, attribute), owner in list(_owners.items()):
        setattr(owner, attribute, fresh())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
