"""The loss table's machinery: it sees a loss where there is one, and none where it is promised."""

from __future__ import annotations

import os
import re
import shutil

import loss
import pytest

SERVER = os.environ.get("DURABLY_TEST_SERVER", "embedded")


def accident(part: str) -> loss.Accident:
    return next(one for one in loss.ACCIDENTS if part in one.name)


def test_a_failover_to_a_replica_that_had_hung_loses_what_asked_for_nothing() -> None:
    late = accident("had hung")
    text, kept = loss.cell(SERVER, late, "memory", 600)
    assert kept and int(text.split()[0]) > 0
    text, kept = loss.cell(SERVER, late, "replicas", 600)
    assert kept and re.match(r"\*\*0 of \d+\*\*, \d+ not acknowledged", text), text


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace tells what was synced")
def test_a_power_cut_loses_what_was_not_synced() -> None:
    text, _ = loss.cell(SERVER, loss.Accident("", loss.power_cut, fsync="no", needs="strace"), "memory", 300)
    if text.startswith("not run"):
        pytest.skip(text)
    assert int(text.split()[0]) > 0, text
    text, _ = loss.cell(SERVER, accident("power cut"), "memory", 300)
    assert text.startswith("0 of "), text
