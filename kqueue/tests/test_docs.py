"""Tests of README and the pages of docs/ that have no test file of their own: every program and
command in them runs, and what they name exists.

Commands run in a folder of their own, against the broker of a `kqueue serve` line, on a free port.
"""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from configparser import ConfigParser
from pathlib import Path

import pytest

from kqueue.base.registry import BUILT_IN
from kqueue.base.settings import format_value
from kqueue.config.catalog import CATALOG
from kqueue.log.policies import POLICIES
from kqueue.tests.doc_pages import Page, count_tests, environment, run_line, run_program, run_tests, serving
from kqueue.tests.source_tree import ROOT
from kqueue.tests.tables import for_each

README = Page("README.md")
INSTALL = Page("docs/install.md")
DEMOS = Page("docs/demos.md")
SERVER = Page("docs/server.md")
CLIENTS = Page("docs/clients.md")
PAGES = (
    README,
    SERVER,
    Page("docs/transactions-and-groups.md"),
    Page("docs/start/testing.md"),
    Page("docs/start/small-service.md"),
    Page("docs/start/kafka-files.md"),
)
"""The pages whose blocks run here."""
ELSEWHERE = {
    "docs/access-control.md": "kqueue/tests/test_docs_access_control.py",
    "docs/clusters.md": "kqueue/tests/test_docs_clusters.py",
    "docs/console.md": "kqueue/tests/test_docs_console.py",
    "docs/collect.md": "kqueue/tests/test_docs_collect.py",
    "docs/command-line.md": "kqueue/tests/test_docs_command_line.py",
    "docs/demos.md": "kqueue/tests/test_docs.py",
    "docs/install.md": "kqueue/tests/test_docs.py",
    "docs/log-events.md": "kqueue/tests/test_docs_log_events.py",
    "docs/log-tools.md": "kqueue/tests/test_docs_log_tools.py",
    "docs/metrics.md": "kqueue/tests/test_docs_metrics.py",
    "docs/operations.md": "kqueue/tests/test_docs_operations.py",
    "docs/migrating.md": "kqueue/tests/test_docs_testing.py",
    "docs/pipeline.md": "compat_tests/spark/test_docs_pipeline.py",
    "docs/plugins.md": "kqueue/tests/test_docs_plugins.py",
    "docs/schema-registry.md": "kqueue/tests/test_docs_schema_registry.py",
    "docs/security.md": "kqueue/tests/test_docs_security.py",
    "docs/share-groups.md": "kqueue/tests/test_docs_share_groups.py",
    "docs/spark-cluster.md": "compat_tests/spark_cluster/test_programs.py",
    "docs/spark-connect.md": "compat_tests/spark_connect/test_sessions.py",
    "docs/spark.md": "compat_tests/spark/test_docs_spark.py",
    "docs/start/cluster.md": "kqueue/tests/test_docs_clusters.py",
    "docs/start/spark.md": "compat_tests/spark/test_docs_spark.py",
    "docs/testing.md": "kqueue/tests/test_docs_testing.py",
    "docs/workers.md": "kqueue/tests/test_docs_workers.py",
}
"""The pages with blocks that another file runs, and that file."""
README_WORDS_MAX = 1200
SCREEN_LINES = 45
PROGRAM_OUTPUTS = {
    "b'two coffees'\n",
    "b'Alice: -5' b'Bob: +5'\n",
    "0 b'two coffees'\n1 b'one tea'\n",
    "",
}
BY_TOX = "pip install tox && tox p"
DEMO = "pip install '.[demo]' && kqueue demo"
CLUSTER_DEMO = "kqueue demo cluster"
WHOLE_DEMO = ((), 336_776)
SHORT_DEMO = (("--flights", "20000"), 20_000)
"""Options, and how many flights come back."""
names = [page.name for page in PAGES]


def test_the_two_commands_for_new_users_come_first() -> None:
    assert README.commands()[:2] == [DEMO, BY_TOX]


def test_readme_has_fewer_words_than_a_landing_page_may_have() -> None:
    assert len(README.text.split()) < README_WORDS_MAX


def all_pages() -> list[Page]:
    return [Page(str(path.relative_to(ROOT))) for path in sorted((ROOT / "docs").rglob("*.md"))]


def test_every_page_is_linked_from_the_index() -> None:
    index = Page("docs/index.md")
    linked = set(re.findall(r"\]\(([^)#]+)\)", index.text))
    decisions = set(re.findall(r"\]\(([^)#]+)\)", Page("docs/decisions/README.md").text))
    for page in all_pages():
        name = page.name.removeprefix("docs/")
        assert page == index or name in linked or name.removeprefix("decisions/") in decisions, name


@for_each("path", sorted((ROOT / "docs" / "start").glob("*.md")))
def test_a_page_to_start_with_has_two_screens_and_leads_on(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) <= 2 * SCREEN_LINES
    assert "pip install " in text
    assert len(re.findall(r"^- .*\]\(\.\./", text, re.MULTILINE)) >= 2


def test_every_page_with_commands_or_programs_is_run() -> None:
    runnable = {page.name for page in all_pages() if page.blocks("sh") or page.blocks("python")}
    ours = set(names) | ELSEWHERE.keys()
    assert {name for name in runnable if "/internals/" not in name} <= ours
    for page, file in ELSEWHERE.items():
        assert Path(page).name in (ROOT / file).read_text(), f"{file} does not name {page}"


DISK_STALLED = re.compile(
    r"^the event loop has been blocked for .+ s, so no client is served: kqueue\.storage\.\S+, line .+ holds it\n", re.M
)
"""The watchdog's warning where the disk of a busy machine takes a second to write.
"""


@pytest.mark.thorough
@pytest.mark.parametrize(("options", "flights"), [WHOLE_DEMO, SHORT_DEMO])
def test_the_demo_as_a_process(tmp_path: Path, options: tuple[str, ...], flights: int) -> None:
    result = subprocess.run(
        ["kqueue", "demo", *options], cwd=tmp_path, capture_output=True, text=True, env=environment(), check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert f"All {flights:,} flights came back, each once and in order." in result.stdout
    assert DISK_STALLED.sub("", result.stderr) == ""


def shape(text: str) -> list[str]:
    """The lines without what differs from run to run: numbers, units, the widths of columns."""
    text = (
        re.sub(r"(?:< )?\d[\d,.]*(?: [kM]?B\b|/s)?", "#", text)
        .replace("leaders", "leader")
        .replace("partitions", "partition")
    )
    return [re.sub(r"[ ─]+", " ", line).strip() for line in text.splitlines()]


@pytest.mark.thorough
def test_the_demo_of_a_cluster_prints_what_is_shown(tmp_path: Path) -> None:
    """With fewer flights than the run that is shown, so in less time."""
    assert DEMOS.commands() == [CLUSTER_DEMO]
    (shown,) = DEMOS.blocks("text")
    assert max(map(len, shown.splitlines())) <= 80
    result = subprocess.run(
        [*CLUSTER_DEMO.split(), "--flights", "20000"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env=environment(COLUMNS="80"),
        check=False,
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert shape(result.stdout) == shape(shown)


def extras() -> set[str]:
    with (ROOT / "pyproject.toml").open("rb") as file:
        return set(tomllib.load(file)["project"]["optional-dependencies"])


def test_every_extra_for_users_is_named() -> None:
    named = re.findall(r"extras? `([\w-]+)`|^\| `\[([\w-]+)\]` \| ", INSTALL.text, re.MULTILINE)
    assert {one or other for one, other in named} == extras() - {"test", "dev"}


INSTALLS = re.compile(r"pip install '?(?:kqueue\b|\.\[(?!test\]))")
PLACES = ("*.md", "docs/*.md", "examples/**/*", "plugins/**/*.md", "kqueue/**/*.py", "kqueue/**/*.txt")
TEXTS = [
    path
    for pattern in PLACES
    for path in sorted(ROOT.glob(pattern))
    if path.is_file() and "tests" not in path.relative_to(ROOT).parts and path.suffix != ".pyc"
]


def test_installation_is_described_where_a_reader_begins() -> None:
    """kqueue is on no package index: the commands work in a checkout, and change once it is
    published.
    """
    where = {str(path.relative_to(ROOT)) for path in TEXTS if INSTALLS.search(path.read_text())}
    assert where == {"README.md", "docs/install.md", "kqueue/base/extras.py"}
    starts = [page for page in all_pages() if page.name.startswith("docs/start/")]
    for page in (README, INSTALL, *starts):
        installs = [line for line in page.commands() if line.startswith("pip install ") and line != BY_TOX]
        assert installs
        for line in installs:
            match = re.fullmatch(r"pip install (?:\.|'\.\[([\w,-]+)\]')(?: && kqueue demo)?", line)
            assert match is not None, line
            assert set(filter(None, (match[1] or "").split(","))) <= extras()


def test_the_ci_script_runs_tox_first() -> None:
    ran = re.findall(r'^run "[^"]+" (.+)$', (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    assert ran[0] == '"$tox" p'


def is_run_beside_a_broker(line: str) -> bool:
    return line not in (DEMO, BY_TOX) and not line.startswith(("kqueue serve", "pip install "))


@pytest.mark.parametrize(
    "page", [README, *(pytest.param(page, marks=pytest.mark.long) for page in PAGES[1:])], ids=names
)
def test_every_block_runs(page: Page, tmp_path: Path) -> None:
    """Tests and programs first, then commands, each in the order of the page and in one folder."""
    lines = [line for line in page.commands() if is_run_beside_a_broker(line)]
    if tests := [text for text in page.blocks("python") if count_tests(text)]:
        run_tests(tests, tmp_path)
    for text in page.blocks("python"):
        if text not in tests:
            assert run_program(text, tmp_path) in PROGRAM_OUTPUTS
    if not lines:
        return
    with serving("kqueue serve", tmp_path) as bootstrap:
        for line in lines:
            printed = run_line(line, tmp_path, KQUEUE_BOOTSTRAP=bootstrap)
            if line.startswith("kqueue consume orders"):
                assert printed == "two coffees\n"
    assert (tmp_path / "kqueue-data").is_dir()


@pytest.mark.long
def test_every_way_to_serve(tmp_path: Path) -> None:
    lines = {line for page in PAGES for line in page.commands() if line.startswith("kqueue serve")}
    assert len(lines) == 3
    (tmp_path / "server.properties").write_text("num.partitions=2\n")
    for line in sorted(lines):
        with serving(line.replace("--workers 4", "--workers 2"), tmp_path):  # which start sooner
            pass


def test_settings_exist_with_these_defaults() -> None:
    rows = re.findall(r"^\| `([\w.]+)` \| `([^`]+)` \|", SERVER.text, re.MULTILINE)
    assert len(rows) == 4
    for name, default in rows:
        assert format_value(CATALOG.broker[name].default) == default
    for page in PAGES:
        named = set(re.findall(r"[\" ]([a-z]+(?:\.[a-z]+)+)=", page.text))
        assert named <= {*CATALOG.broker, *CATALOG.topic}, page.name


def test_the_table_has_all_policies() -> None:
    """S5.1, S5.2, S5.4"""
    told = re.findall(r"^\| `(\w+)`(?: \(default\))? \| [^`|]", SERVER.text, re.MULTILINE)
    assert sorted(told) == sorted(entry.name for entry in POLICIES if entry.origin == BUILT_IN)


def test_the_table_has_the_clients_of_the_suite() -> None:
    tox = ConfigParser()
    tox.read(ROOT / "tox.ini")
    suites = set(re.findall(r"--client=(\S+)", (ROOT / "tox.ini").read_text()))
    told = re.findall(
        r"^\| (\w+-?\w*)(?: \(librdkafka\))? \| ((?:\d|$).*) \|$", CLIENTS.text.partition("\n## ")[0], re.MULTILINE
    )
    others = clients_of_other_languages()
    assert {client.lower() for client, versions in told} == suites | others.keys()
    pins = " ".join([*others.values(), *(tox[section].get("deps", "") for section in tox.sections())])
    for _, versions in told:
        for version in re.findall(r"\d+\.\d+(?:\.\d+)?", versions.replace("(Python 3.11)", "")):
            assert version in pins or version == newest(versions), f"{version} is not what tox runs"


def clients_of_other_languages() -> dict[str, str]:
    """The clients that the suites in Go, JavaScript and Rust use, and their versions."""
    folder = ROOT / "compat_tests" / "languages"
    go = re.findall(r"^\tgithub\.com/\w+/([\w-]+) v([\d.]+)$", (folder / "go" / "go.mod").read_text(), re.MULTILINE)
    js: dict[str, str] = json.loads((folder / "js" / "package.json").read_text())["dependencies"]
    rust = re.findall(r'^(rskafka) = .*"=([\d.]+)"', (folder / "rust" / "Cargo.toml").read_text(), re.MULTILINE)
    return {**dict(go), **js, **dict(rust)}


def newest(versions: str) -> str:
    """Return the last version of a row, which was `latest` when the row was written."""
    return re.findall(r"\d+\.\d+(?:\.\d+)?", versions)[-1]
