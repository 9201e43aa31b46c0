"""Runs the Spark program of docs/collect.md on lines that `kqueue collect` sent."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

import kqueue
from kqueue.cli.app import kqueue as command

TEXT = (Path(__file__).parents[2] / "docs" / "collect.md").read_text()


@pytest.mark.usefixtures("spark")
def test_collected_lines_are_processed(
    broker: kqueue.Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    broker.create_topic("logs", 1)
    (tmp_path / "app.log").write_text("INFO up\nERROR one\nERROR two\n")
    (tmp_path / "web.log").write_text("ERROR three\n")
    arguments = ["collect", "*.log", "-t", "logs", "--once", "-b", broker.bootstrap]
    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 0, result.output
    again = next(record for record in broker.topics["logs"].records() if record.value == b"ERROR two")
    broker.topics["logs"].produce(
        again.value, key=again.key, headers=again.headers
    )  # a duplicate, as a killed agent may produce
    (code,) = re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    capsys.readouterr()
    exec(compile(code.replace("localhost:9092", broker.bootstrap), "docs/collect.md", "exec"), {})
    counts = dict(re.findall(r"^\|.*?(\w+\.log) *\|[^|]*\|(\d+) *\|$", capsys.readouterr().out, re.MULTILINE))
    assert counts == {"app.log": "2", "web.log": "1"}
