# Generated from docs/examples/archive/workflow.py by twin.py. Edit that file.
"""The archive: one workflow per file, whose steps are digest, pack, count, settle, verify and publish.

Every 50th file also waits for an approval, which another process gives.
"""

from __future__ import annotations

import gzip
import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from durably_redis_sync import LuaEffect, Run, check_workflow_id

NAMESPACE = "archive"
SETTLE = timedelta(milliseconds=300)
APPROVED_EVERY = 50


def workflow_id(number: int) -> str:
    """The id of the file at `number` in the list of sources."""
    return check_workflow_id(f"file-{number:05d}")


def ledger_key(workflow: str, namespace: str = NAMESPACE) -> str:
    """The ledger of one workflow: it carries the workflow's tag, so that one script may touch both."""
    return f"{namespace}:{{{workflow}}}:ledger"


def _digest(path: Path) -> list[object]:
    data = path.read_bytes()
    return [len(data), hashlib.sha256(data).hexdigest()]


@dataclass(frozen=True)
class Archive:
    """Where files come from and go to, and the log of what was really done, one line per act."""

    sources: list[str]
    target: Path
    log: Callable[[str], None]
    namespace: str = NAMESPACE

    def published(self, number: int) -> Path:
        """Where a file is published."""
        return self.target / f"{workflow_id(number)}.gz"

    def body(self, run: Run) -> str:
        """The workflow."""
        self.log(f"pass {run.workflow}")
        number = int(run.workflow.removeprefix("file-"))
        source = Path(self.sources[number])

        def digest() -> object:
            self.log(f"digest {run.workflow}")
            return _digest(source)

        def pack() -> object:
            self.log(f"pack {run.workflow}")
            temporary = self.target / f".{run.workflow}.{run.holder.token}.{os.getpid()}"
            with gzip.open(temporary, "wb", compresslevel=6) as out:
                out.write(source.read_bytes())
            return str(temporary)

        size, sha = run.step("digest", digest, _pair)
        packed = Path(run.step("pack", pack, str))
        count = LuaEffect(
            "return tostring(redis.call('HINCRBY', KEYS[1], ARGV[1], 1))",
            (ledger_key(run.workflow, self.namespace),),
            (run.workflow,),
        )
        run.transact("count", count, _number)
        run.sleep("settle", SETTLE)

        def verify() -> object:
            self.log(f"verify {run.workflow}")
            data = gzip.decompress((packed if packed.exists() else self.published(number)).read_bytes())
            if (len(data), hashlib.sha256(data).hexdigest()) != (size, sha):
                raise ValueError(f"{packed} does not hold {source}")
            return True

        run.step("verify", verify, bool)
        if number % APPROVED_EVERY == 0:
            run.awaiting("approval", str)

        def publish() -> object:
            self.log(f"publish {run.workflow}")
            if packed.exists():
                os.replace(packed, self.published(number))
            return str(self.published(number))

        where = run.step("publish", publish, str)
        self.log(f"end {run.workflow}")
        return where


def _pair(value: Any) -> tuple[int, str]:
    size, sha = value
    return int(size), str(sha)


def _number(value: object) -> int:
    if not isinstance(value, int):
        raise TypeError(f"a count is a number, not {value!r}")
    return value
