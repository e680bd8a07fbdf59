"""A process for `test_outbox.py`: one pass, at whose call boundary number `at` the process kills itself."""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from durably_redis_async import SplitDurable, advance
from support import ms
from support_async import Faults, client, run_alone


async def main() -> None:
    url, namespace, kind, at = sys.argv[1:]
    found: Any = importlib.util.spec_from_file_location(
        "test_outbox", Path(__file__).with_name("test_outbox.py")
    )
    tests = importlib.util.module_from_spec(found)
    found.loader.exec_module(tests)
    redis = client(url)
    durable = await tests.of_kind(kind, redis, namespace)
    faults = Faults(int(at), lambda: os.kill(os.getpid(), signal.SIGKILL))
    if kind.startswith("split"):
        durable = SplitDurable(faults.over(durable.checkpointer), faults.over(durable.scheduler))
    else:
        once = durable.post_in_step

        async def post_in_step(*args: Any) -> Any:
            faults.pass_by("before post")
            answer = await once(*args)
            faults.pass_by("after post")
            return answer

        object.__setattr__(durable, "post_in_step", post_in_step)
        faults.passed += ["before next_ready", "after next_ready", "before claim"]
    delivery = await durable.scheduler.next_ready(ms(1000))
    assert delivery is not None
    await advance(durable, tests.parent, delivery, budget=ms(100))
    await redis.aclose()


if __name__ == "__main__":
    run_alone(main)
