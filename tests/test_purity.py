"""What keeps the async source fit for a blocking twin, and the core free of either flavour."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from pathlib import Path

import durably
import durably_redis_async
import pytest
from durably.lua import read_script, splice

CORE = Path(durably.__file__).parent
FLAVOUR = Path(durably_redis_async.__file__).parent
HAND_WRITTEN = {
    "_concurrency.py",
    "_client.py",
    "_cluster.py",
    "_patience.py",
    "_gathering.py",
    "_transport.py",
}
WITHOUT_REDIS = {
    "interfaces.py",
    "run.py",
    "resume.py",
    "extending.py",
    "one_pass.py",
    "outbox.py",
    "passes.py",
    "proving.py",
    "together.py",
    "worker.py",
    "keeper.py",
    "memory.py",
    "memory_queue.py",
    "graph.py",
    "streams.py",
}
TRANSFORMED = sorted(path for path in FLAVOUR.glob("*.py") if path.name not in HAND_WRITTEN)
WORDS = re.compile(r"\b(async|await\w*|asyncio|coroutine\w*|tasks?|aclose)\b", re.IGNORECASE)


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {one.name for one in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    return found


@pytest.mark.parametrize("path", sorted(CORE.rglob("*.py")), ids=lambda path: path.name)
def test_core_knows_no_flavour(path: Path) -> None:
    roots = {name.split(".")[0] for name in imports(path)}
    assert not roots & {"asyncio", "threading", "redis", "durably_redis_async"}
    assert not [
        node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.AsyncFunctionDef)
    ]


@pytest.mark.parametrize("path", TRANSFORMED, ids=lambda path: path.name)
def test_only_two_files_know_how_to_wait_and_who_the_client_is(path: Path) -> None:
    names = imports(path)
    assert not {name.split(".")[0] for name in names} & {"asyncio", "threading", "redis"}
    source = path.read_text()
    assert "time.sleep" not in source and "Awaitable" not in source and "Coroutine" not in source
    if path.name in WITHOUT_REDIS:
        assert "durably_redis_async._client" not in names


@pytest.mark.parametrize("path", TRANSFORMED, ids=lambda path: path.name)
def test_a_transformed_file_is_fit_to_be_transformed(path: Path) -> None:
    source = path.read_text()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            assert not node.name.startswith(("Async", "Sync", "async_")), node.name
        if isinstance(node, ast.JoinedStr):
            assert not [one for one in ast.walk(node) if isinstance(one, ast.Await)], "await in an f-string"
    assert "AsyncGenerator" not in source
    assert not re.search(r"await[(\n]|await  ", source)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in (tokenize.COMMENT, tokenize.STRING):
            assert not WORDS.search(token.string), f"{path.name}:{token.start[0]}: {token.string[:80]}"


@pytest.mark.parametrize("path", sorted((CORE / "lua").glob("*.lua")), ids=lambda path: path.name)
def test_a_scripts_header_names_the_slots_it_uses(path: Path) -> None:
    lines = path.read_text().splitlines()
    header = "\n".join(line for line in lines if line.startswith("--"))
    code = "\n".join(line for line in lines if not line.startswith("--"))
    for needed in ("KEYS[1]", "returns", "errors"):
        assert needed in header, f"{path.name}'s header says nothing of {needed}"
    for slot in set(re.findall(r"(?:KEYS|ARGV)\[\d+\]", code)):
        assert slot in header, f"{path.name} uses {slot}, which its header does not name"
    assert "@include" not in re.sub(r"-- @include \w+", "", read_script(path.stem))


def test_every_public_name_is_there() -> None:
    for module in (durably, durably_redis_async):
        assert len(set(module.__all__)) == len(module.__all__)
        for name in module.__all__:
            assert hasattr(module, name), name
    assert set(durably.__all__) <= set(durably_redis_async.__all__)


def test_modules_stay_small() -> None:
    for path in [*CORE.rglob("*.py"), *FLAVOUR.rglob("*.py")]:
        # one file holds all that a flavour's waiting needs, so that no other names asyncio or threading; and one its client
        most = {"_concurrency.py": 450, "_client.py": 350}.get(path.name, 300)
        assert len(path.read_text().splitlines()) <= most, path.name


def test_splicing_needs_exactly_one_place() -> None:
    with pytest.raises(ValueError):
        splice("nothing here", "return 1")
    with pytest.raises(FileNotFoundError):
        read_script("no_such_script")
