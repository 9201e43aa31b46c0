"""Tests of the pages of docs/ that have no test file of their own: every program and command in
them runs, and what they and README name exists.

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
from kqueue.tests.doc_pages import BY_TOX, README, Page, environment, run_blocks, serving
from kqueue.tests.source_tree import ROOT
from kqueue.tests.tables import for_each

INSTALL = Page("docs/install.md")
DEMOS = Page("docs/demos.md")
SERVER = Page("docs/server.md")
CLIENTS = Page("docs/clients.md")
PAGES = (
    Page("docs/index.md"),
    SERVER,
    Page("docs/transactions-and-groups.md"),
    Page("docs/start/testing.md"),
    Page("docs/start/small-service.md"),
    Page("docs/start/kafka-files.md"),
)
"""The pages whose blocks run here."""
ELSEWHERE = {
    "docs/access-control.md": "kqueue/tests/docs/test_access_control.py",
    "docs/clusters.md": "kqueue/tests/docs/test_clusters.py",
    "docs/console.md": "kqueue/tests/docs/test_console.py",
    "docs/collect.md": "kqueue/tests/docs/test_collect.py",
    "docs/command-line.md": "kqueue/tests/docs/test_command_line.py",
    "docs/demos.md": "kqueue/tests/docs/test_pages.py",
    "docs/install.md": "kqueue/tests/docs/test_pages.py",
    "docs/log-events.md": "kqueue/tests/docs/test_log_events.py",
    "docs/log-tools.md": "kqueue/tests/docs/test_log_tools.py",
    "docs/metrics.md": "kqueue/tests/docs/test_metrics.py",
    "docs/operations.md": "kqueue/tests/docs/test_operations.py",
    "docs/migrating.md": "kqueue/tests/docs/test_testing.py",
    "docs/pipeline.md": "compat_tests/spark/test_docs_pipeline.py",
    "docs/plugins.md": "kqueue/tests/docs/test_plugins.py",
    "docs/schema-registry.md": "kqueue/tests/docs/test_schema_registry.py",
    "docs/security.md": "kqueue/tests/docs/test_security.py",
    "docs/reference/error-codes.md": "kqueue/tests/docs/test_error_codes.py",
    "docs/reference/settings.md": "kqueue/tests/docs/test_settings.py",
    "docs/share-groups.md": "kqueue/tests/docs/test_share_groups.py",
    "docs/tiered.md": "kqueue/tests/docs/test_tiered.py",
    "docs/spark-cluster.md": "compat_tests/spark_cluster/test_programs.py",
    "docs/spark-connect.md": "compat_tests/spark_connect/test_sessions.py",
    "docs/spark.md": "compat_tests/spark/test_docs_spark.py",
    "docs/start/cluster.md": "kqueue/tests/docs/test_clusters.py",
    "docs/start/security.md": "kqueue/tests/docs/test_start_security.py",
    "docs/start/spark.md": "compat_tests/spark/test_docs_spark.py",
    "docs/systemd.md": "kqueue/tests/docs/test_systemd.py",
    "docs/testcontainers.md": "kqueue/tests/docs/test_testcontainers.py",
    "docs/testing.md": "kqueue/tests/docs/test_testing.py",
    "docs/workers.md": "kqueue/tests/docs/test_workers.py",
}
"""The pages with blocks that another file runs, and that file."""
SCREEN_LINES = 45
CLUSTER_DEMO = "kqueue demo cluster"
TIERED_DEMO = "kqueue demo tiered"
WHOLE_DEMO = ((), 336_776)
SHORT_DEMO = (("--flights", "20000"), 20_000)
"""Options, and how many flights come back."""
names = [page.name for page in PAGES]


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
    check_demo(CLUSTER_DEMO, 0, tmp_path, "--flights", "20000")


@pytest.mark.long
@pytest.mark.thorough
def test_the_demo_of_tiered_storage_prints_what_is_shown(tmp_path: Path) -> None:
    check_demo(TIERED_DEMO, 1, tmp_path, "--size", "20", "--local", "2")


def check_demo(command: str, number: int, tmp_path: Path, *options: str) -> None:
    assert DEMOS.commands()[number] == command
    shown = DEMOS.blocks("text")[number]
    assert max(map(len, shown.splitlines())) <= 80
    result = subprocess.run(
        [*command.split(), *options],
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
    assert {one or other for one, other in named} == extras() - {"test", "dev", "docs"}


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
    assert where == {"README.md", "docs/index.md", "docs/install.md", "kqueue/base/extras.py"}
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


@pytest.mark.parametrize("page", PAGES, ids=names)
def test_every_block_runs(page: Page, tmp_path: Path) -> None:
    run_blocks(page, tmp_path)


@pytest.mark.long
def test_every_way_to_serve(tmp_path: Path) -> None:
    lines = {line for page in (README, *PAGES) for line in page.commands() if line.startswith("kqueue serve")}
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
    for page in (README, *PAGES):
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
