"""What README and docs show is run as it stands."""

from __future__ import annotations

import ast
import asyncio
import inspect
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from durably.embedded import EmbeddedServer
from durably.embedded_cluster import EmbeddedCluster, say

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"

needs_pages = pytest.mark.skipif(
    not (DOCS / "guide.md").exists(), reason="the pages are not beside these tests"
)


def test_the_readmes_hello_world_is_the_example() -> None:
    hello = DOCS / "examples" / "hello.py"
    assert f"```python\n{hello.read_text()}```" in (ROOT / "README.md").read_text()


@pytest.mark.parametrize("name", ["hello.py", "hello_sync.py"])
def test_hello_world_runs(name: str) -> None:
    command = [sys.executable, str(DOCS / "examples" / name)]
    said = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert said.stdout == "receipt for order-7 approved by accounting\n", said.stderr
    assert said.returncode == 0


def test_the_blocking_hello_world_is_the_other_without_its_waiting() -> None:
    folder = DOCS / "examples"
    text = (folder / "hello.py").read_text()
    for old, new in (
        ("import asyncio\n", "import threading\n"),
        ("asyncio.run(main())", "main()"),
        ("asyncio.Event", "threading.Event"),
        ("redis.asyncio", "redis"),
        ("durably_redis_async", "durably_redis_sync"),
        ("aclose", "close"),
        ("async def", "def"),
        ("await ", ""),
    ):
        assert old in text
        text = text.replace(old, new)
    assert text == (folder / "hello_sync.py").read_text()


@pytest.mark.parametrize(
    "words",
    [["--files", "60"], ["--files", "45", "--topology", "cluster", "--flavour", "mixed"]],
    ids=["single", "cluster"],
)
def test_the_demo_loses_and_doubles_nothing(words: list[str]) -> None:
    drive = DOCS / "examples" / "archive" / "drive.py"
    command = [sys.executable, str(drive), "--kill-every", "0.7", *words]
    said = subprocess.run(command, capture_output=True, text=True, timeout=110)
    assert said.returncode == 0, said.stdout + said.stderr
    assert "nothing lost, nothing doubled" in said.stdout
    if "cluster" in words:
        assert "its replica took over within" in " ".join(said.stdout.split()), said.stdout


class Page:
    """The snippets of one page, run section by section in one name space. `quickly`: what is replaced in them."""

    def __init__(self, name: str, url: str, quickly: dict[str, str]) -> None:
        self.names: dict[str, Any] = {"__name__": "snippets"}
        self._text = (DOCS / name).read_text()
        self._quickly = {"redis://localhost:6379": url, **quickly}

    def __getattr__(self, name: str) -> Any:
        return self.names[name]

    def snippets(self, heading: str) -> list[str]:
        """The snippets under a heading; those before the first one under no heading."""
        found: list[str] = []
        section = ""
        lines: list[str] | None = None
        for line in self._text.splitlines(keepends=True):
            if lines is None and line.startswith("## "):
                section = line[3:].strip()
            elif lines is None and line.startswith("```python"):
                lines = []
            elif lines is not None and line.startswith("```"):
                if section == heading:
                    found.append("".join(lines))
                lines = None
            elif lines is not None:
                lines.append(line)
        assert found, f"no snippet under {heading!r}"
        return found

    def compiled(self, snippet: str) -> Any:
        """The snippet, ready to run; it may wait at its top level."""
        for slow, quick in self._quickly.items():
            snippet = snippet.replace(slow, quick)
        return compile(snippet, "snippet", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)

    def run(self, snippet: str) -> Awaitable[object] | None:
        """Run it; what is to be awaited, if it waits."""
        code = self.compiled(snippet)
        made = eval(code, self.names)
        return made if inspect.iscoroutine(made) else None


async def _run(page: Page, heading: str, which: slice = slice(None)) -> None:
    for snippet in page.snippets(heading)[which]:
        await _ran(page, snippet)


async def _ran(page: Page, snippet: str) -> None:
    waits = page.run(snippet)
    if waits is not None:
        await waits


async def _worked(page: Page, body: Any, workflow: str, until: str, within: float = 20.0) -> Any:
    """Run a worker until a record is there; what it holds."""
    stop = page.asyncio.Event()
    worker = asyncio.create_task(page.work(page.durable, body, stop=stop))
    ends = time.monotonic() + within
    while until not in (records := await page.store.load(workflow)):
        assert time.monotonic() < ends and not worker.done(), records
        await asyncio.sleep(0.01)
    stop.set()
    await worker
    return records[until]


@pytest.fixture
async def guide(own_server: EmbeddedServer) -> AsyncIterator[Page]:
    """The guide, its first lines run against a server of this test's own."""
    quickly = {
        "days=": "milliseconds=250 * ",
        "hours=1)": "milliseconds=50)",
        "seconds=2**n": "milliseconds=2**n",
    }
    page = Page("guide.md", own_server.url, quickly)
    await _run(page, "")
    yield page
    await page.redis.aclose()


@needs_pages
class TestTheGuide:
    async def test_starting_a_workflow(self, guide: Page) -> None:
        await _run(guide, "Starting a workflow")
        said = await _worked(guide, guide.signup, "signup-7", "welcomed")
        assert said == "welcome mail to someone@example.org"

    async def test_results(self, guide: Page, capsys: pytest.CaptureFixture[str]) -> None:
        await _run(guide, "Results", slice(1))
        await guide.durable.start("total-1", [1, 2, 3])
        assert await _worked(guide, guide.total, "total-1", "result") == 6
        await _run(guide, "Results", slice(1, None))
        assert guide.records == {"input": [1, 2, 3], "result": 6}
        assert capsys.readouterr().out.startswith("6 ")

    async def test_code_outside_steps(self, guide: Page) -> None:
        await _run(guide, "Code outside steps runs on every pass")
        await guide.durable.scheduler.make_ready("report-1")
        today = datetime.now(timezone.utc).date().isoformat()
        assert await _worked(guide, guide.report, "report-1", "result") >= f"report of {today}"

    async def test_suspensions(self, guide: Page) -> None:
        await _run(guide, "Let suspensions pass")
        from durably_redis_async import Blocked, Swallowed

        async def gathers(run: Any) -> object:
            return await asyncio.gather(run.awaiting("approval", str), return_exceptions=True)

        async def races(run: Any) -> str:
            answer = asyncio.create_task(run.awaiting("approval", str))
            deadline = asyncio.create_task(run.sleep("until", guide.timedelta(seconds=30)))
            await asyncio.wait({answer, deadline})
            assert deadline.exception() is not None
            return str(answer.result())

        async def once(body: Any, workflow: str) -> object:
            holder = await guide.claimed(guide.store, workflow)
            try:
                return await guide.resume(holder, guide.store, body)
            finally:
                await guide.store.release(holder)

        for body in (guide.wrong, gathers):
            with pytest.raises(Swallowed):
                await once(body, body.__name__)
        assert await once(guide.right, "right") == Blocked(("approval",))
        await guide.store.supply("races", "approval", "yes")
        with pytest.raises(Swallowed):
            await once(races, "races")
        assert await once(guide.both, "both") == Blocked(("goods", "invoice"))
        await guide.store.supply("both", "goods", "ten chairs")
        assert await once(guide.both, "both") == Blocked(("invoice",))
        await guide.durable.arrive("both", "invoice", "no. 12")
        assert await _worked(guide, guide.both, "both", "result") == "ten chairs and no. 12"

    async def test_failures_and_retries(self, guide: Page) -> None:
        answers = iter([False, False, True])

        async def charge_card(workflow: str) -> bool:
            return next(answers, False)

        guide.names["charge_card"] = charge_card
        await guide.durable.arrive("order-7", "a", 1)
        await _run(guide, "Failures and retries")
        assert await guide.queue.available(10) == 0 and await guide.store.load("order-7") == {}
        await guide.durable.scheduler.make_ready("pay-1")
        assert await _worked(guide, guide.pay, "pay-1", "try 2") is True
        await guide.durable.scheduler.make_ready("pay-2")
        assert await _worked(guide, guide.pay, "pay-2", "result") == "not paid"

    async def test_a_wait_with_a_deadline(self, guide: Page) -> None:
        await _run(guide, "A wait with a deadline")
        assert await _worked(guide, guide.approval, "order-8", "decided") == "granted"
        await guide.durable.scheduler.make_ready("in time")
        waits = asyncio.create_task(_worked(guide, guide.approval, "in time", "decided"))
        await asyncio.sleep(0.1)
        await guide.durable.arrive("in time", "approval", "granted")
        assert await waits == "granted"
        await guide.durable.scheduler.make_ready("late")
        assert await _worked(guide, guide.approval, "late", "decided") == "too late"
        await guide.durable.arrive("late", "approval", "granted")
        holder = await guide.claimed(guide.store, "late")
        await guide.resume(holder, guide.store, guide.approval)
        assert (await guide.store.load("late"))["decided"] == "too late"

    async def test_starting_and_messaging_others(self, guide: Page) -> None:
        await _run(guide, "Starting and messaging other workflows")
        await guide.durable.start("order-9", {"address": "Hauptstr. 1"})
        await _worked(guide, guide.order, "order-9", "announced")
        assert await guide.store.load("order-9-shipment") == {"input": {"to": "Hauptstr. 1"}}
        assert list((await guide.store.load("warehouse")).values()) == [{"order": "order-9"}]

    async def test_messages(self, guide: Page) -> None:
        await _run(guide, "Messages")
        assert await _worked(guide, guide.tally, "tally-1", "result") == 3

    async def test_a_transaction(self, guide: Page) -> None:
        await _run(guide, "A transaction in Redis", slice(1))
        await guide.redis.set("balance:{spend-2}", 50)
        for workflow, enough, left in (("spend-1", False, None), ("spend-2", True, "20")):
            await guide.durable.scheduler.make_ready(workflow)
            assert await _worked(guide, guide.spend, workflow, "spent") == {"ok": enough}
            assert await guide.redis.get(f"balance:{{{workflow}}}") == left
        from durably_redis_async import EffectTorn

        await guide.durable.delete("spend-1")
        holder = await guide.claimed(guide.store, "spend-1")
        torn = guide.LuaEffect("redis.call('SET', KEYS[1], 'x') return 5", ("half",))
        for _ in range(2):
            with pytest.raises(EffectTorn):
                await guide.store.transact(holder, "spent", torn)
        await _run(guide, "A transaction in Redis", slice(1, None))
        assert await guide.store.clear_torn("spend-1", "spent") is False

    async def test_graphs(self, guide: Page, capsys: pytest.CaptureFixture[str]) -> None:
        await _run(guide, "Graphs")
        assert capsys.readouterr().out == "Completed(value=3)\n"
        await guide.durable.arrive("count-2", "address", "here")
        assert await _worked(guide, guide.counted, "count-2", "words") == 3

    async def test_several_kinds(self, guide: Page) -> None:
        await _run(guide, "Starting a workflow")
        await _run(guide, "Results", slice(1))
        await _run(guide, "Several kinds of workflows")
        working = asyncio.create_task(guide.work_on_all())
        signups, totals = guide.of_kind("signups"), guide.of_kind("totals")
        await signups.arrive("same id", "input", {"email": "a@example.org"})
        await totals.arrive("same id", "input", [1, 2])
        await _eventually(lambda: signups.checkpointer.load("same id"), "welcomed")
        await _eventually(lambda: totals.checkpointer.load("same id"), "result")
        os.kill(os.getpid(), signal.SIGTERM)
        await working

    async def test_changed_code(self, guide: Page) -> None:
        async def before(run: Any) -> None:
            async def done() -> bool:
                return True

            await run.step("charged", done, bool)
            await run.awaiting("approval", str)
            await run.step("shipped", done, bool)

        await guide.durable.scheduler.make_ready("w")
        await _worked(guide, before, "w", "charged")
        await _run(guide, "Changing code over a deploy")
        await guide.durable.arrive("w", "approval", "yes")
        await _worked(guide, guide.ship, "w", "shipped")
        assert list(await guide.store.load("w")) == ["charged", "approval", "checked", "shipped"]

    async def test_stopping(self, guide: Page) -> None:
        await _run(guide, "Starting a workflow")
        await _run(guide, "Stopping")
        assert guide.worker.done()

    async def test_trimming(self, guide: Page) -> None:
        await _run(guide, "Starting a workflow")
        guide.names["TRIM_EVERY"] = guide.timedelta(milliseconds=20)
        await _run(guide, "Trimming beside work")
        working = asyncio.create_task(guide.work_and_trim())
        await _eventually(lambda: guide.store.load("signup-7"), "welcomed")
        while await guide.redis.xlen(guide.queue.ready_key):
            await asyncio.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)
        await working

    async def test_sweeping(self, guide: Page) -> None:
        await guide.durable.start("w", 1)
        await _run(guide, "Sweeping")

    async def test_connecting(self, guide: Page, own_server: EmbeddedServer) -> None:
        await _run(guide, "Starting a workflow", slice(1))
        await _run(guide, "Connecting")
        working = asyncio.create_task(guide.work_on())
        await asyncio.sleep(0.2)
        own_server.kill()
        await asyncio.sleep(4)
        own_server.restart()
        await guide.durable.arrive("signup-7", "input", {"email": "a@example.org"})
        await _eventually(lambda: guide.store.load("signup-7"), "welcomed")
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)

    async def test_how_long_records_are_kept(self, guide: Page) -> None:
        await _run(guide, "How long records are kept")
        assert await guide.queue.parked() == {}
        await guide.store.supply("w", "a", 1)
        await asyncio.sleep(0.05)
        assert await guide.store.load("w") == {"a": 1}

    def test_every_section_with_a_snippet_is_run(self) -> None:
        ran = Path(__file__).read_text()
        for section in (DOCS / "guide.md").read_text().split("\n## ")[1:]:
            if "```python" in section:
                assert f'_run(guide, "{section.splitlines()[0]}"' in ran


async def _eventually(load: Callable[[], Awaitable[dict[str, object]]], key: str) -> None:
    ends = time.monotonic() + 20
    while key not in await load():
        assert time.monotonic() < ends
        await asyncio.sleep(0.01)


@pytest.fixture
def sync(own_server: EmbeddedServer) -> Iterator[Page]:
    """The page on the blocking flavour, its first lines run against a server of this test's own."""
    page = Page("sync.md", own_server.url, {"seconds=1)": "milliseconds=50)"})
    for snippet in page.snippets(""):
        page.run(snippet)
    yield page
    page.redis.close()


@needs_pages
class TestThePageOnTheBlockingFlavour:
    def test_a_script_without_a_worker(self, sync: Page) -> None:
        for snippet in sync.snippets("A script without a worker"):
            sync.run(snippet)
        assert list(sync.store.load("order-7")) == ["charged", "cooling off", "shipped"]

    def test_a_worker_in_a_thread(self, sync: Page) -> None:
        snippet = sync.snippets("A worker in a thread")[0]
        started, ended = snippet.split("# ... serve requests ...\n")
        sync.run(started)
        sync.durable.scheduler.make_ready("order-7")
        ends = time.monotonic() + 20
        while "shipped" not in sync.store.load("order-7"):
            assert time.monotonic() < ends
            time.sleep(0.01)
        sync.run(ended)
        assert not sync.worker.is_alive()

    def test_threads_of_a_bodys_own(self, sync: Page) -> None:
        sync.run(sync.snippets("Threads of a body's own")[0])
        sync.resume(sync.claimed(sync.store, "w"), sync.store, sync.gallery)
        assert sync.store.load("w")["result"] == sum(n * n for n in range(8))

    def test_celery(self, sync: Page) -> None:
        pytest.importorskip("celery")
        sync.run(sync.snippets("Celery")[0])
        sync.durable.scheduler.prepare()
        assert sync.run_order.apply(args=["order-7"]).get() == "order-7: sleeping"


def _as_pytest(snippet: str, folder: Path) -> str:
    """What pytest says about a snippet that is a test file, in a folder with no settings of ours."""
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "test_snippet.py").write_text(snippet)
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    said = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=100, env=env)
    return said.stdout + said.stderr


@pytest.fixture
async def testing() -> Page:
    """The page on testing, its first lines run."""
    page = Page("testing.md", "", {})
    await _run(page, "")
    return page


@needs_pages
class TestThePageOnTesting:
    async def test_one_pass(self, testing: Page) -> None:
        await _run(testing, "One pass")

    async def test_in_the_middle(self, testing: Page) -> None:
        await _run(testing, "One pass")
        await _run(testing, "In the middle of a workflow")
        assert testing.mails == ["order-7", "order-8"]

    async def test_wakeups(self, testing: Page) -> None:
        await _run(testing, "Wakeups")

    async def test_a_worker(self, testing: Page) -> None:
        async with asyncio.timeout(20):
            await _run(testing, "A worker")
        assert testing.mails == ["order-10"]

    async def test_the_embedded_server(self, testing: Page) -> None:
        await _run(testing, "The embedded server")

    @pytest.mark.parametrize("which", [0, 1])
    def test_fixtures(self, testing: Page, tmp_path: Path, which: int) -> None:
        said = _as_pytest(testing.snippets("pytest fixtures")[which], tmp_path)
        assert "2 passed" in said, said

    def test_every_section_with_a_snippet_is_run(self) -> None:
        ran = Path(__file__).read_text()
        for section in (DOCS / "testing.md").read_text().split("\n## ")[1:]:
            if "```python" in section:
                assert f'"{section.splitlines()[0]}"' in ran


BLOCKING = {
    "import asyncio": "import threading",
    "asyncio.Event": "threading.Event",
    "redis.asyncio": "redis",
    "durably_redis_async": "durably_redis_sync",
    "aclose": "close",
    "async def": "def",
    "await ": "",
}
"""What makes the blocking flavour of a snippet, where nothing else differs."""


@pytest.fixture(scope="module")
def a_cluster() -> Iterator[EmbeddedCluster]:
    """Three masters: what the page on clusters shows needs no replicas."""
    with EmbeddedCluster(3, 0) as started:
        yield started


@pytest.fixture(params=["async", "sync"])
async def cluster(request: pytest.FixtureRequest, a_cluster: EmbeddedCluster) -> AsyncIterator[Page]:
    """The page on clusters in each flavour, its first lines run against a cluster that holds nothing."""
    for node in a_cluster.nodes:
        say(node.port, "FLUSHALL")
    quickly = BLOCKING if request.param == "sync" else {}
    page = Page("cluster.md", "", {"redis://localhost:7000": a_cluster.url, **quickly})
    for snippet in page.snippets(""):
        await _ran(page, snippet)
    yield page
    await _ran(page, "await redis.aclose()")


WORK_ON = """
stop.clear()
await durable.scheduler.make_ready("order-8")
await work(durable, {body}, stop=stop)
found = await store.load("order-8")
"""


@needs_pages
class TestThePageOnClusters:
    async def test_the_first_lines(self, cluster: Page) -> None:
        await _ran(cluster, "found = await store.load('order-7')")
        assert cluster.found == {"shipped": "order-7 shipped"}

    async def test_a_cluster_to_try_out(self, cluster: Page) -> None:
        await _run(cluster, "To try one out")

    async def test_keys_and_slots(self, cluster: Page) -> None:
        await _run(cluster, "Keys and slots")
        await _ran(cluster, WORK_ON.format(body="reserve"))
        assert cluster.found == {"reserved": 1}
        await _ran(cluster, "mine = await redis.get('reserved:{order-8}')")
        assert cluster.mine == "1"
        refused = """
from durably_redis_async import claimed, resume
holder = await claimed(store, "order-9")
try:
    await resume(holder, store, refused)
except ValueError as error:
    said = str(error)
"""
        await _ran(cluster, refused)
        assert cluster.said in " ".join((DOCS / "cluster.md").read_text().split())

    async def test_several_partitions(self, cluster: Page) -> None:
        await _run(cluster, "Several partitions")
        assert len(set(cluster.nodes)) == 3 and cluster.delivery is None and cluster.left == []
        await _ran(cluster, WORK_ON.format(body="order"))
        assert cluster.found == {"shipped": "order-8 shipped"}

    async def test_growing_and_shrinking(self, cluster: Page) -> None:
        await _run(cluster, "Growing and shrinking", slice(1))
        assert [cluster.step_1.spread, cluster.step_2.spread] == [4, None]
        name = next(
            name
            for name in (f"w{n}" for n in range(99))
            if cluster.step_2.home(name) is cluster.step_2.partitions[6]
        )
        await _ran(cluster, f"await step_2.prepare()\nawait step_2.make_ready({name!r})")
        await _run(cluster, "Growing and shrinking", slice(1, None))
        assert cluster.may_go == [True, True, False, True]
        await _ran(
            cluster,
            "delivery = (await step_1.take_now(1))[0]\n"
            "assert delivery.workflow == " + repr(name) + "\n"
            "from durably_redis_async import now_utc\n"
            "await step_1.wake_at(delivery, now_utc() + timedelta(hours=1))",
        )
        await _run(cluster, "Growing and shrinking", slice(1, None))
        assert cluster.may_go == [True, True, False, True]
        await _ran(cluster, f"await step_1.cancel({name!r})")
        await _run(cluster, "Growing and shrinking", slice(1, None))
        assert cluster.may_go == [True] * 4

    def test_every_section_with_a_snippet_is_run(self) -> None:
        ran = Path(__file__).read_text()
        for section in (DOCS / "cluster.md").read_text().split("\n## ")[1:]:
            if "```python" in section:
                assert f'_run(cluster, "{section.splitlines()[0]}"' in ran
