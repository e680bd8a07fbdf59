"""The two flavours are one: same names, same parameters and defaults, same tests, and the twin is what its source gives."""

from __future__ import annotations

import ast
import inspect
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import durably_redis_async
import durably_redis_sync
import pytest

ROOT = Path(__file__).parents[1]
HAND_WRITTEN = {
    "_concurrency.py",
    "_client.py",
    "_cluster.py",
    "_patience.py",
    "_gathering.py",
    "_transport.py",
    "celery.py",
}

ONLY_ONE_FLAVOUR = {
    "redis_async": {
        "test_concurrency.py": "how this flavour waits; the twin's is in test_threads.py",
        "test_cancellation.py": "a thread cannot be cancelled",
        "test_processes.py": "starts processes of both flavours itself",
        "test_scheduler_model.py": "drives the same scripts; the property is the server's",
    },
    "redis_sync": {
        "test_threads.py": "how threads wait, hung threads, Ctrl-C, forks",
        "test_celery.py": "Celery is a thing of this flavour",
    },
}
"""Files of tests that one flavour has alone, and why."""


def flavour_free(text: str) -> str:
    return text.replace("durably_redis_async", "F").replace("durably_redis_sync", "F")


def shape(thing: Any) -> Any:
    """What users can see of a public name: parameters, their kinds and defaults, members."""
    if inspect.isclass(thing):
        members = {
            name: shape(inspect.getattr_static(thing, name))
            for name in dir(thing)
            if not name.startswith("_") or name == "__init__"
        }
        return ("class", members)
    if isinstance(thing, (staticmethod, classmethod)):
        return shape(thing.__func__)
    if isinstance(thing, property):
        return ("property", shape(thing.fget))
    if inspect.isfunction(thing):
        return [
            (one.name, one.kind.name, flavour_free(re.sub(r" at 0x\w+", "", repr(one.default))))
            for one in inspect.signature(thing).parameters.values()
        ]
    return type(thing).__name__


def test_both_flavours_have_the_same_public_names() -> None:
    assert durably_redis_async.__all__ == durably_redis_sync.__all__


@pytest.mark.parametrize("name", durably_redis_async.__all__)
def test_a_public_name_takes_the_same_in_both(name: str) -> None:
    assert shape(getattr(durably_redis_async, name)) == shape(getattr(durably_redis_sync, name))


@pytest.mark.parametrize("module", ["_concurrency", "_client"])
def test_the_files_written_by_hand_export_the_same(module: str) -> None:
    here = __import__(f"durably_redis_async.{module}", fromlist=["__all__"])
    there = __import__(f"durably_redis_sync.{module}", fromlist=["__all__"])
    assert here.__all__ == there.__all__
    for name in here.__all__:
        one, other = getattr(here, name), getattr(there, name)
        if inspect.isclass(one) and one.__module__ == here.__name__:
            public = {n for n in vars(one) if not n.startswith("_")}
            assert public == {n for n in vars(other) if not n.startswith("_")}, name
        elif inspect.isfunction(one) and one.__module__ == here.__name__:
            assert list(inspect.signature(one).parameters) == list(inspect.signature(other).parameters), name


def test_no_async_word_is_left_in_the_twin() -> None:
    words = re.compile(r"\b(async|await|asyncio|Awaitable|Coroutine|aclose|aclosing|AsyncIterator)\b")
    folder = Path(durably_redis_sync.__file__).parent
    for path in sorted(folder.glob("*.py")):
        text = path.read_text()
        found = words.search(text)
        assert found is None, f"{path.name}: {found and text[found.start() : found.start() + 60]!r}"
        if path.name not in HAND_WRITTEN:
            assert text.startswith(
                f"# Generated from packages/redis_async/src/durably_redis_async/{path.name} by twin.py."
            ), path.name


def named_tests(path: Path) -> list[str]:
    return [
        node.name
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name.startswith("test_")
    ]


def test_both_flavours_have_the_same_tests() -> None:
    files = {
        flavour: {path.name: named_tests(path) for path in (ROOT / "tests" / flavour).glob("test_*.py")}
        for flavour in ONLY_ONE_FLAVOUR
    }
    shared = {
        flavour: {name: tests for name, tests in there.items() if name not in ONLY_ONE_FLAVOUR[flavour]}
        for flavour, there in files.items()
    }
    assert shared["redis_async"] == shared["redis_sync"]
    for flavour, alone in ONLY_ONE_FLAVOUR.items():
        assert set(alone) <= set(files[flavour]), flavour


@pytest.mark.skipif(not (ROOT / "twin.py").exists(), reason="runs where the sources are")
def test_a_change_of_one_source_line_is_found(tmp_path: Path) -> None:
    pytest.importorskip("unasync")
    for folder in ("packages", "tests", "docs/examples"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("twin.py", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)

    def check() -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(tmp_path / "twin.py"), "--check"]
        return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)

    assert check().returncode == 0, check().stdout
    source = tmp_path / "packages/redis_async/src/durably_redis_async/durable.py"
    source.write_text(source.read_text().replace("await self.scheduler.cancel(workflow)", "pass", 1))
    (tmp_path / "packages/redis_sync/src/durably_redis_sync/stray.py").write_text("x = 1\n")
    (tmp_path / "tests/redis_sync/test_run.py").unlink()
    said = check()
    assert said.returncode == 1
    for path in ("durable.py: differs", "stray.py: has no source", "test_run.py: is missing"):
        assert path in said.stdout
