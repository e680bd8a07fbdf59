"""Names that are this process's own: a child made by `fork` gets others than its parent."""

from __future__ import annotations

import itertools
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


class _Nonces:
    """A prefix of this process's own and a counter, which is one step even where threads share it."""

    def __init__(self) -> None:
        self.prefix = uuid4().hex
        self.numbers = itertools.count()


_nonces = _Nonces()


def nonce() -> str:
    """Text that no call had before, in this process or in another: far cheaper than a name of its own for each."""
    own = _nonces
    return f"{own.prefix}{next(own.numbers):x}"


def _renew() -> None:
    _nonces.__init__()  # type: ignore[misc]
    for (_, attribute), owner in list(_owners.items()):
        setattr(owner, attribute, fresh())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
