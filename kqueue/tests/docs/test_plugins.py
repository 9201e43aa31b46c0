"""Tests of docs/plugins.md and plugins/README.md: programs and commands run, and tables say
what there is.

What installs and runs a new distribution (pip, pytest) runs in `plugins/tests`, in an environment
of its own.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tomllib
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

import kqueue.testing
from kqueue.config.catalog import CATALOG
from kqueue.config.environment import PLUGIN_VARIABLES
from kqueue.config.plugins import CONTRACTS
from kqueue.testing.process_environment import process_environment
from kqueue.tests.doc_pages import run_line, run_program

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs" / "plugins.md").read_text()
SAMPLES = (ROOT / "plugins" / "README.md").read_text()
SERVES = re.compile(r"serves PLAINTEXT://(\S+?);")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def commands() -> list[str]:
    return [line for text in blocks("sh") for line in text.splitlines()]


def rows(title: str) -> list[list[str]]:
    """Return the cells of the table whose first line begins with `title`, without code marks."""
    table = TEXT.split(f"\n| {title} |", 1)[1].split("\n\n", 1)[0]
    return [[cell.strip().strip("`") for cell in line.strip("|").split(" | ")] for line in table.splitlines()[2:]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the document's module."""
    (module,) = (text for text in blocks("python") if "class LastHundred" in text)
    (tmp_path / "keeping.py").write_text(module)
    return tmp_path


def environment(**more: str) -> dict[str, str]:
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    return process_environment(PATH=path, **more)


@pytest.fixture
def served(folder: Path) -> Iterator[str]:
    """The broker of the document's `kqueue serve` line, on a free port."""
    (line,) = (line for line in commands() if "kqueue serve" in line)
    process = subprocess.Popen(
        ["bash", "-c", line.replace("kqueue serve", "exec kqueue serve")],
        cwd=folder,
        env=environment(KQUEUE_LISTENERS="PLAINTEXT://127.0.0.1:0"),
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stderr is not None
        told = process.stderr.readline()
        match = SERVES.search(told)
        try:
            assert match is not None, told
            yield match[1]
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=60)
    assert process.returncode == 0


@pytest.mark.long
def test_every_command(served: str, folder: Path) -> None:
    ours = [line for line in commands() if not line.startswith(("pip ", "pytest ")) and "kqueue serve" not in line]
    assert len(ours) >= 7
    for line in ours:
        run_line(line, folder, KQUEUE_BOOTSTRAP=served)
    described = run_line("kqueue topics describe", folder, KQUEUE_BOOTSTRAP=served)
    assert "cleanup.policy=last-hundred" in described
    assert "kqueue.partitioner=crc32" in described


@pytest.mark.parametrize("text", [text for text in blocks("python") if "class LastHundred" not in text])
def test_every_program(text: str, folder: Path) -> None:
    run_program(text, folder)


def test_the_table_has_all_contracts() -> None:
    told = {kind: (contract, group, checker.rstrip(" |")) for kind, contract, group, _, checker in rows("kind")}
    assert list(told) == [contract.kind for contract in CONTRACTS]
    for contract in CONTRACTS:
        where, group, checker = told[contract.kind]
        assert group == contract.group
        assert checker.strip("`") == (contract.checker or "")
        if contract.checker is not None:
            assert (ROOT / where).is_file()
            assert callable(getattr(kqueue.testing, contract.checker))


def test_the_settings_are_those_of_the_contracts() -> None:
    assert [name for name, _ in rows("setting")] == [contract.setting for contract in CONTRACTS if contract.setting]
    named = set(re.findall(r"`(kqueue\.[a-z]+(?:\.[a-z]+)*)`", TEXT)) - {contract.group for contract in CONTRACTS}
    named -= {"kqueue.testing", PLUGIN_VARIABLES}
    assert f"`{PLUGIN_VARIABLES}`" in TEXT
    assert named <= {*CATALOG.broker, *CATALOG.topic}


def test_links_lead_somewhere() -> None:
    for text, folder in ((TEXT, "docs"), (SAMPLES, "plugins")):
        for target in re.findall(r"\]\((?!https?:)([^)#]+)[^)]*\)", text):
            assert (ROOT / folder / target).exists(), target


def test_the_table_has_all_samples() -> None:
    told = re.findall(r"^\| \[`([\w-]+)`\]\(([\w-]+)\) \| ([\w-]+) \|", SAMPLES, re.MULTILINE)
    there = sorted(path.parent.name for path in (ROOT / "plugins").glob("*/pyproject.toml"))
    assert sorted(name for name, _, _ in told) == there
    kinds = {contract.group: contract.kind for contract in CONTRACTS}
    for name, folder, kind in told:
        assert name == folder
        project = tomllib.loads((ROOT / "plugins" / name / "pyproject.toml").read_text())["project"]
        assert project["name"] == name
        assert [kinds[group] for group in project["entry-points"] if group != PLUGIN_VARIABLES] == [kind]


def test_installed_folders_exist() -> None:
    lines = re.findall(r"^pip install (.+)$", SAMPLES, re.MULTILINE)
    assert lines
    for line in lines:
        for word in line.split():
            if word.startswith(("./plugins/", "'./plugins/")):
                assert (ROOT / word.strip("'").partition("[")[0]).is_dir(), word


@pytest.mark.long
def test_users_of_confluent_kafka_name_the_partition_that_the_partitioner_chooses(tmp_path: Path) -> None:
    pytest.importorskip("confluent_kafka")
    (text,) = (text for text in blocks("py") if "confluent_kafka" in text)
    assert int(run_program(text, tmp_path)) == zlib.crc32(b"ada") % 6
