"""One process of the archive: `worker` runs passes, `approver` gives approvals."""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import sys
import time
from datetime import timedelta
from pathlib import Path

from connection import SCHEDULERS, TOPOLOGIES, build, connect
from durably_redis_sync import work
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError
from workflow import APPROVED_EVERY, Archive, workflow_id


def run_worker(folder: Path, topology: str, scheduler: str, namespace: str) -> None:
    """Run passes until killed, or until the driver ends this process."""
    log = os.open(folder / "logs" / f"{os.getpid()}.log", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    sources = json.loads((folder / "sources.json").read_text())
    archive = Archive(sources, folder / "out", lambda line: _write(log, line), namespace)
    while True:
        redis = connect(os.environ["REDIS_URL"], topology)
        try:
            work(build(redis, scheduler, namespace), archive.body, within=timedelta(milliseconds=500))
        except (RedisConnectionError, RedisTimeoutError) as error:
            print(f"worker {os.getpid()} starts again: {error}", file=sys.stderr)
            time.sleep(0.1)
        finally:
            with contextlib.suppress(RedisConnectionError):
                redis.close()


def run_approver(folder: Path, topology: str, scheduler: str, namespace: str) -> None:
    """Approve every file that needs it, once each, and end."""
    redis = connect(os.environ["REDIS_URL"], topology)
    durable = build(redis, scheduler, namespace)
    count = len(json.loads((folder / "sources.json").read_text()))
    for number in range(0, count, APPROVED_EVERY):
        time.sleep(0.3)
        durable.arrive(workflow_id(number), "approval", "granted")
    redis.close()


def _write(log: int, line: str) -> None:
    os.write(log, f"{line}\n".encode())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("role", choices=["worker", "approver"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("topology", choices=TOPOLOGIES)
    parser.add_argument("scheduler", choices=SCHEDULERS)
    parser.add_argument("namespace")
    options = parser.parse_args()
    logging.basicConfig(level=logging.ERROR)
    role = run_worker if options.role == "worker" else run_approver
    role(options.folder, options.topology, options.scheduler, options.namespace)


if __name__ == "__main__":
    main()
