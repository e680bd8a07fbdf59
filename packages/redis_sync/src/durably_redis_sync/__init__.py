# Generated from packages/redis_async/src/durably_redis_async/__init__.py by twin.py. Edit that file.
"""Durable workflows on Redis. One import serves: every public name of `durably` is here as well."""

import durably
from durably import *  # noqa: F403

from durably_redis_sync.checking import check_server
from durably_redis_sync.checkpointer import RedisCheckpointer
from durably_redis_sync.durable import SplitDurable
from durably_redis_sync.extending import Extend, extending
from durably_redis_sync.graph import (
    Compiled,
    CompiledGraph,
    Graph,
    Node,
    Unsurvivable,
    WiringError,
    run_durably,
)
from durably_redis_sync.interfaces import Checkpointer, Durable, Scheduler, claimed
from durably_redis_sync.memory import MemoryCheckpointer
from durably_redis_sync.memory_queue import MemoryScheduler
from durably_redis_sync.partitioned import PartitionedScheduler
from durably_redis_sync.passes import advance, passes
from durably_redis_sync.redis_durable import RedisDurable
from durably_redis_sync.resume import Body, resume
from durably_redis_sync.run import Parse, Run
from durably_redis_sync.sorted_set import POLL, RedisSetScheduler
from durably_redis_sync.stream import TRIM_EVERY, RedisStreamScheduler, trimming
from durably_redis_sync.streams import Sink, from_sink, ticks
from durably_redis_sync.sweeper import SETTLED, SWEEP_EVERY, Swept, sweep, sweeping
from durably_redis_sync.worker import GRACE, ready, waking, work

__all__ = [
    *durably.__all__,
    "GRACE",
    "POLL",
    "SETTLED",
    "SWEEP_EVERY",
    "TRIM_EVERY",
    "Body",
    "Checkpointer",
    "Compiled",
    "CompiledGraph",
    "Durable",
    "Extend",
    "Graph",
    "MemoryCheckpointer",
    "MemoryScheduler",
    "Node",
    "Parse",
    "PartitionedScheduler",
    "RedisCheckpointer",
    "RedisDurable",
    "RedisSetScheduler",
    "RedisStreamScheduler",
    "Run",
    "Scheduler",
    "Sink",
    "SplitDurable",
    "Swept",
    "Unsurvivable",
    "WiringError",
    "advance",
    "check_server",
    "claimed",
    "extending",
    "from_sink",
    "passes",
    "ready",
    "resume",
    "run_durably",
    "sweep",
    "sweeping",
    "ticks",
    "trimming",
    "waking",
    "work",
]
