"""What README and docs show is run as it stands."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_readmes_hello_world_is_the_example_and_runs() -> None:
    hello = ROOT / "docs" / "examples" / "hello.py"
    assert f"```python\n{hello.read_text()}```" in (ROOT / "README.md").read_text()
    said = subprocess.run([sys.executable, str(hello)], capture_output=True, text=True, timeout=60)
    assert said.stdout == "receipt for order-7 approved by Ada\n", said.stderr
    assert said.returncode == 0


def test_the_demo_loses_and_doubles_nothing() -> None:
    drive = ROOT / "docs" / "examples" / "archive" / "drive.py"
    command = [sys.executable, str(drive), "--files", "60", "--kill-every", "0.7"]
    said = subprocess.run(command, capture_output=True, text=True, timeout=110)
    assert said.returncode == 0, said.stdout + said.stderr
    assert "nothing lost, nothing doubled" in said.stdout
