"""Tests of docs/clusters.md and docs/start/cluster.md: their commands run one after the other, with
real brokers; settings and defaults exist, and so do the tests that are named.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

import kqueue
from kqueue.base.settings import format_value
from kqueue.cli.app import kqueue as root
from kqueue.config.catalog import CATALOG
from kqueue.tests.served_cluster import wait_until_unfenced
from kqueue.tests.shell_script import run_script
from kqueue.tests.source_tree import ROOT

TEXT = (ROOT / "docs" / "clusters.md").read_text()
SECTIONS = {text.partition("\n")[0]: text for text in TEXT.split("\n## ")}
PORTS = "909"
"""The ports of the script without their last digit, which is the broker's number."""
TIMEOUT_S = 300


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Where the script runs. Brokers that it leaves running, because it failed, are killed."""
    yield tmp_path
    for file in tmp_path.glob("broker-*.pid"):
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(file.read_text()), signal.SIGKILL)


def free_prefix() -> str:
    """Return the digits of five ports that are free, without the last one."""
    while True:
        prefix = random.randrange(1100, 3200)
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
            for digit in range(1, 6):
                stack.enter_context(socket.socket()).bind(("127.0.0.1", prefix * 10 + digit))
            return str(prefix)


def commands(section: str) -> str:
    """Return the commands of a section, with ports that are free."""
    return script_of(SECTIONS[section])


def script_of(text: str) -> str:
    blocks = re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return "".join(block for block in blocks if not block.startswith("pip install ")).replace(PORTS, free_prefix())


def run(script: str, folder: Path) -> str:
    """Run a script with bash; return what it prints, at the first command that fails too."""
    with (folder / "printed").open("w") as printed:
        status = run_script(script, folder, printed, TIMEOUT_S)
    text = (folder / "printed").read_text()
    logs = "\n".join(f"{log.name}:\n{log.read_text()[-2000:]}" for log in folder.glob("broker-*.log"))
    assert status == 0, f"{text[-3000:]}\n{logs}"
    return text


@pytest.mark.long
@pytest.mark.thorough
def test_three_brokers_by_hand(folder: Path) -> None:
    printed = run(commands("Three brokers by hand"), folder)
    assert "Broker 3 is no longer registered." in printed
    assert "records that this broker confirmed may be missing" in (folder / "broker-2.log").read_text()
    assert not (folder / "data-3").exists()


def test_a_first_cluster(folder: Path) -> None:
    printed = run(script_of((ROOT / "docs" / "start" / "cluster.md").read_text()), folder)
    assert len((folder / "read.txt").read_text().splitlines()) == 200
    assert "Topic: orders" in printed or "orders" in printed.partition("--under-replicated")[2]


@pytest.mark.long
def test_a_secured_cluster(folder: Path) -> None:
    """Without what the section before has left in the shell."""
    run(commands("A secured cluster"), folder)
    assert len((folder / "read.txt").read_text().splitlines()) == 2000


def test_no_other_section_has_commands() -> None:
    assert [name for name, text in SECTIONS.items() if "\n```sh\n" in text] == [
        "Three brokers by hand",
        "A secured cluster",
    ]


def test_settings_exist_with_these_defaults() -> None:
    rows = re.findall(r"^\| `([a-z][\w.]+)`(?:, `([\w.]+)`)? \| (not set|`[^`]+`) \|", TEXT, re.MULTILINE)
    assert len(rows) > 12
    for name, other, default in rows:
        expected = None if default == "not set" else default.strip("`")
        assert format_value(CATALOG.broker[name].default) == expected, name
        assert not other or other in CATALOG.broker


def test_the_tests_that_the_guarantees_name_exist() -> None:
    table = TEXT.partition("## What is guaranteed")[2].partition("\n\nacks=1")[0]
    rows = [row for row in table.splitlines() if row.startswith("| ")][2:]
    assert len(rows) > 8
    tests = "".join(path.read_text() for top in ("kqueue/tests", "compat_tests") for path in (ROOT / top).rglob("*.py"))
    for row in rows:
        proof = row.rsplit("|", 2)[1]
        assert re.search(r"`test_|`kqueue demo|`python -m", proof), row
        for name in re.findall(r"`(test_\w+)`", proof):
            assert f"def {name}(" in tests, name


def test_a_single_broker_becomes_a_cluster(tmp_path: Path) -> None:
    """The commands of that section, on brokers in this process."""
    section = TEXT.partition("## From a single broker to a cluster")[2].partition("\n## ")[0]
    lines = [" ".join(line.split()) for line in re.findall(r"`(kqueue cluster [^`]+)`", section)]
    assert len(lines) == 2
    first = tmp_path / "data-1"
    with kqueue.Broker(first, node_id=1) as broker:
        broker.create_topic("orders", 3)
        broker.topics["orders"].produce("two coffees")
    with contextlib.ExitStack() as stack:
        settings = {"kqueue.cluster.store": f"sqlite:{first / 'kqueue.db'}"}
        brokers = [
            stack.enter_context(kqueue.Broker(tmp_path / f"data-{number}", node_id=number, settings=settings))
            for number in (1, 2, 3)
        ]
        wait_until_unfenced(brokers)
        for line in lines:
            command = line.replace("plan.json", str(tmp_path / "plan.json"))
            result = CliRunner(env={"KQUEUE_BOOTSTRAP": brokers[0].bootstrap}).invoke(root, command.split()[1:])
            assert result.exit_code == 0, result.output
        result = CliRunner().invoke(root, ["cluster", "wait", "--brokers", "3", "-b", brokers[0].bootstrap])
        assert result.exit_code == 0, result.output
        assert all((tmp_path / f"data-{number}" / "orders-0").exists() for number in (1, 2, 3))
