"""Tests of the README: every program and command in it runs, and what it names exists.

Commands run in a folder of their own, against the broker of the README's `kqueue serve` line, on a
free port.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from configparser import ConfigParser
from pathlib import Path
from typing import NamedTuple

import pytest

from kqueue.base.registry import BUILT_IN
from kqueue.base.settings import format_value
from kqueue.config.catalog import CATALOG
from kqueue.log.policies import POLICIES
from kqueue.testing.process_environment import process_environment

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
SERVES = re.compile(r"serves PLAINTEXT://(\S+?);")
PROGRAM_OUTPUTS = {"b'two coffees'\n", "b'Alice: -5' b'Bob: +5'\n"}
BY_TOX = "pip install tox && tox"
DEMO = "pip install '.[demo]' && kqueue demo"
CLUSTER_DEMO = "kqueue demo cluster"


class Block(NamedTuple):
    """A fenced block of the README."""

    language: str
    text: str


def blocks(language: str) -> list[str]:
    found = [
        Block(*match) for match in re.findall(r"^```(\w*)\n(.*?)^```$", README.read_text(), re.MULTILINE | re.DOTALL)
    ]
    assert {block.language for block in found} == {"sh", "python", "text"}
    return [block.text for block in found if block.language == language]


def commands() -> list[str]:
    return [line for text in blocks("sh") for line in text.splitlines()]


def environment(**more: str) -> dict[str, str]:
    """Return this process's environment, with the `kqueue` of this Python first on the path."""
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    return process_environment(PATH=path, **more)


def serve(command: str, folder: Path) -> subprocess.Popen[str]:
    """Start a `kqueue serve` line of the README, but on a free port."""
    return subprocess.Popen(
        command.split(),
        cwd=folder,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(KQUEUE_LISTENERS="PLAINTEXT://127.0.0.1:0"),
    )


def where(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    line = process.stderr.readline()
    match = SERVES.search(line)
    assert match is not None, line
    return match[1]


def end(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert process.returncode == 0


@pytest.fixture
def served(tmp_path: Path) -> Iterator[str]:
    with serve("kqueue serve", tmp_path) as process:
        yield where(process)
        end(process)
    assert (tmp_path / "kqueue-data").is_dir()


def test_the_two_commands_for_new_users_come_first() -> None:
    assert commands()[:2] == [DEMO, BY_TOX]


DISK_STALLED = re.compile(
    r"^the event loop has been blocked for .+ s, so no client is served: kqueue\.storage\.\S+, line .+ holds it\n", re.M
)
"""The watchdog's warning where the disk of a busy machine takes a second to write.
"""


def test_the_demo(tmp_path: Path) -> None:
    result = subprocess.run(
        ["kqueue", "demo"], cwd=tmp_path, capture_output=True, text=True, env=environment(), check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "All 336,776 flights came back, each once and in order." in result.stdout
    assert DISK_STALLED.sub("", result.stderr) == ""


def shape(text: str) -> list[str]:
    """The lines without what differs from run to run: numbers, units, the widths of columns."""
    text = (
        re.sub(r"(?:< )?\d[\d,.]*(?: [kM]?B\b|/s)?", "#", text)
        .replace("leaders", "leader")
        .replace("partitions", "partition")
    )
    return [re.sub(r"[ ─]+", " ", line).strip() for line in text.splitlines()]


def test_the_demo_of_a_cluster_prints_what_is_shown(tmp_path: Path) -> None:
    """With fewer flights than the run that is shown, so in less time."""
    assert CLUSTER_DEMO in commands()
    (shown,) = blocks("text")
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


def test_every_extra_for_users_is_named() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        extras = tomllib.load(file)["project"]["optional-dependencies"]
    named = set(
        re.findall(
            r"extras? `([\w-]+)`|^\| `\[([\w-]+)\]` \| ", README.read_text().partition("## Settings")[0], re.MULTILINE
        )
    )
    named = {one or other for one, other in named}
    assert named == extras.keys() - {"test", "dev"}


INSTALLS = re.compile(r"pip install '?(?:kqueue\b|\.\[(?!test\]))")
PLACES = ("*.md", "docs/*.md", "examples/**/*", "plugins/**/*.md", "kqueue/**/*.py", "kqueue/**/*.txt")
TEXTS = [
    path
    for pattern in PLACES
    for path in sorted(ROOT.glob(pattern))
    if path.is_file() and "tests" not in path.relative_to(ROOT).parts and path.suffix != ".pyc"
]


def test_installation_is_described_once_in_code_and_once_in_documents() -> None:
    """kqueue is on no package index: the commands work in a checkout, and change once it is
    published.
    """
    where = {str(path.relative_to(ROOT)) for path in TEXTS if INSTALLS.search(path.read_text())}
    assert where == {"README.md", "kqueue/base/extras.py"}
    assert {line for line in README.read_text().splitlines() if INSTALLS.search(line)} == {DEMO, "pip install '.[cli]'"}


def test_the_ci_script_runs_tox_first() -> None:
    ran = re.findall(r'^run "[^"]+" (.+)$', (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    assert ran[0] == '"$tox"'


def test_every_other_command(served: str, tmp_path: Path) -> None:
    rest = [
        line
        for line in commands()
        if line not in (DEMO, CLUSTER_DEMO, BY_TOX) and not line.startswith(("kqueue serve", "pip install "))
    ]
    assert len(rest) > 8
    for line in rest:
        result = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", line],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            env=environment(KQUEUE_BOOTSTRAP=served),
            check=False,
        )
        assert result.returncode == 0, f"{line}\n{result.stdout}{result.stderr}"
        if line.startswith("kqueue consume orders"):
            assert result.stdout == "two coffees\n"


def test_every_way_to_serve(tmp_path: Path) -> None:
    lines = [line for line in commands() if line.startswith("kqueue serve")]
    assert len(lines) == 3
    (tmp_path / "server.properties").write_text("num.partitions=2\n")
    for line in lines:
        with serve(line, tmp_path) as process:
            where(process)
            end(process)


@pytest.mark.parametrize("text", blocks("python"))
def test_programs(text: str, tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(text)
    is_test = "def test_" in text
    command = ["-m", "pytest", "-q", "-p", "no:cacheprovider"] if is_test else ["test_it.py"]
    result = subprocess.run(
        [sys.executable, *command], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert (result.returncode, result.stderr) == (0, ""), result.stdout
    assert "1 passed" in result.stdout if is_test else result.stdout in PROGRAM_OUTPUTS


def test_settings_exist_with_these_defaults() -> None:
    rows = re.findall(r"^\| `([\w.]+)` \| `([^`]+)` \|", README.read_text(), re.MULTILINE)
    assert len(rows) == 4
    for name, default in rows:
        assert format_value(CATALOG.broker[name].default) == default
    named = set(re.findall(r"[\" ]([a-z]+(?:\.[a-z]+)+)=", README.read_text())) | {"log.dirs", "num.partitions"}
    assert named <= {*CATALOG.broker, *CATALOG.topic}


def test_the_table_has_all_policies() -> None:
    """S5.1, S5.2, S5.4"""
    told = re.findall(r"^\| `(\w+)`(?: \(default\))? \| [^`|]", README.read_text(), re.MULTILINE)
    assert sorted(told) == sorted(entry.name for entry in POLICIES if entry.origin == BUILT_IN)


def test_the_table_has_the_clients_of_the_suite() -> None:
    tox = ConfigParser()
    tox.read(ROOT / "tox.ini")
    suites = set(re.findall(r"--client=(\S+)", (ROOT / "tox.ini").read_text()))
    told = re.findall(r"^\| (\w+-?\w*)(?: \(librdkafka\))? \| ((?:\d|$).*) \|$", README.read_text(), re.MULTILINE)
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
