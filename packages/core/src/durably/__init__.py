"""What is true of a durable workflow in both flavours: values, signals, codecs, keys and the Lua of each guarantee."""

from durably.codec import JSON, CheckpointCodec, JsonCodec
from durably.durability import Durability
from durably.durations import check_duration
from durably.effects import LuaEffect
from durably.findings import Finding
from durably.keys import check_workflow_id
from durably.msgspec_codec import MsgpackCodec, MsgspecCodec
from durably.outcomes import Outcome
from durably.signals import (
    CheckpointGone,
    Contended,
    DurabilityUnsupported,
    EffectResultError,
    EffectTorn,
    Fenced,
    InputNeeded,
    Interruption,
    MessageNeeded,
    NotDurable,
    ScheduledWakeup,
    Suspended,
    Swallowed,
    Undecodable,
    Unencodable,
)
from durably.typed import as_type
from durably.values import (
    BUDGET,
    INBOX,
    INBOX_DIGITS,
    INPUT,
    LEASE,
    Blocked,
    Completed,
    Delivery,
    Entry,
    Pass,
    Recorded,
    Sleeping,
    Written,
    inbox_key,
    now_utc,
)

__all__ = [
    "BUDGET",
    "INBOX",
    "INBOX_DIGITS",
    "INPUT",
    "JSON",
    "LEASE",
    "Blocked",
    "CheckpointCodec",
    "CheckpointGone",
    "Completed",
    "Contended",
    "Delivery",
    "Durability",
    "DurabilityUnsupported",
    "EffectResultError",
    "EffectTorn",
    "Entry",
    "Fenced",
    "Finding",
    "InputNeeded",
    "Interruption",
    "JsonCodec",
    "LuaEffect",
    "MessageNeeded",
    "MsgpackCodec",
    "MsgspecCodec",
    "NotDurable",
    "Outcome",
    "Pass",
    "Recorded",
    "ScheduledWakeup",
    "Sleeping",
    "Suspended",
    "Swallowed",
    "Undecodable",
    "Unencodable",
    "Written",
    "as_type",
    "check_duration",
    "check_workflow_id",
    "inbox_key",
    "now_utc",
]
