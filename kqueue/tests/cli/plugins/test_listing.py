from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import Result

from kqueue import Broker
from kqueue.cli.plugins import listing
from kqueue.cli.plugins.inventory import Plugin, Section
from kqueue.tests.cli.plugins.installed import add_distribution

Kq = Callable[..., Result]


def in_a_process(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """`kqueue` in a Python of its own, whose registries see the distributions in `folder`."""
    path = os.pathsep.join((str(folder), str(Path(__file__).parents[4])))
    return subprocess.run(
        [sys.executable, "-m", "kqueue.cli", *args],
        env={**os.environ, "PYTHONPATH": path},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_broken_plugin_is_listed_and_affects_no_other(tmp_path: Path) -> None:
    add_distribution(tmp_path, "half-done", "0.3", {"kqueue.codecs": {"half": "no_such_module:CODEC"}})
    with Broker() as broker:
        broker.create_topic("orders", compression_type="gzip")
        ran = in_a_process(tmp_path, "plugins", "--json", "-b", broker.bootstrap)
    assert (ran.returncode, ran.stderr) == (0, "")
    document = json.loads(ran.stdout)
    assert (document["broker"], document["broker_error"]) == (broker_of(ran), None)
    rows = {(row["kind"], row["name"]): row for row in document["plugins"]}
    assert rows["codec", "half"] == {
        "kind": "codec",
        "name": "half",
        "id": None,
        "origin": "half-done 0.3",
        "state": "failed",
        "why": "ModuleNotFoundError: No module named 'no_such_module'",
        "topics": [],
        "brokers": [],
    }
    assert rows["codec", "gzip"]["topics"] == ["orders"]
    assert rows["storage", "memory"]["brokers"] == [1]


def broker_of(ran: subprocess.CompletedProcess[str]) -> str:
    return str(ran.args[-1])


def test_list_is_what_a_bare_plugins_does(kq: Kq) -> None:
    bare, named = kq("plugins"), kq("plugins", "list")
    assert bare.exit_code == 0, bare.output
    assert bare.output == named.output
    assert "Codecs  (entry points kqueue.codecs)\n NAME" in bare.output
    assert "USED BY" in bare.output
    memory = next(line for line in bare.output.splitlines() if line.startswith(" memory"))
    assert memory.split()[-2:] == ["broker", "1"]


def test_help_of_the_group_and_of_list(kq: Kq) -> None:
    assert "kqueue plugins new partitioner by-country" in kq("plugins", "--help").output
    assert "STATE is ready, in use" in kq("plugins", "list", "-h").output


def test_without_a_broker_one_line_says_so(kq: Kq) -> None:
    with Broker() as broker:
        gone = broker.bootstrap
    result = kq("plugins", "-b", gone)
    assert result.exit_code == 0
    (last,) = [line for line in result.output.splitlines() if "broker" in line]
    assert last.startswith(f"Who uses them is not shown: no broker answers at {gone} (")
    assert "--bootstrap-server HOST:PORT" in last
    assert "USED BY" not in result.output
    assert json.loads(kq("plugins", "-b", gone, "--json").output)["broker"] is None


def test_invalid_address_is_refused(kq: Kq) -> None:
    assert kq("plugins", "-b", "here:there").exit_code == 2


SECTION = Section(
    "codec",
    "kqueue.codecs",
    (
        Plugin("codec", "gzip", 1, "kqueue 0.1.0", "in use", "", ("a-topic-of-some-length", "b", "c", "d"), (1,)),
        Plugin(
            "codec",
            "x" * 20,
            None,
            "a-distribution-with-a-long-name 10.11.12",
            "failed",
            "ImportError: " + "words of why " * 10,
        ),
    ),
)


@pytest.mark.parametrize("width", [80, 140])
def test_listing_fits_the_terminal(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # what rich takes for a terminal
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm")
    listing._print([SECTION], None)
    lines = click.unstyle(capsys.readouterr().out).splitlines()
    assert max(map(len, lines)) <= width
    text = " ".join(" ".join(lines).split())
    assert "broker 1, a-topic-of-some-length, b, c and 1 more" in text
    assert ("gzip is used by broker 1" in text) == (width == 80)
    assert f"{'x' * 20}: ImportError: words of why" in text
    assert text.count("words of why") == 10
