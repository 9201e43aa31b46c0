"""Tests of docs/workers.md: its commands run, on a free port, and it names the settings."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from kqueue.cli.app import kqueue as root
from kqueue.supervisor.worker_plan import INTERNAL_REPLICAS, WORKERS_FOLDER
from kqueue.tests.supervisor.served_workers import serving

TEXT = (Path(__file__).parents[3] / "docs" / "workers.md").read_text()


@pytest.mark.long
def test_the_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    serve, *others = "".join(re.findall(r"^```sh\n(.*?)^```$", TEXT, re.M | re.S)).splitlines()
    name, command, option, count, *more = shlex.split(serve)
    assert (name, command, option) == ("kqueue", "serve", "--workers")
    with serving(tmp_path / "data", int(count), *more) as served:
        served.wait_for("created topic orders")
        runner = CliRunner(env={"KQUEUE_BOOTSTRAP": served.bootstrap})
        for line in others:
            result = runner.invoke(root, shlex.split(line)[1:])
            assert result.exit_code == 0, result.output
        assert served.end() == 0


def test_page_names_the_differences_to_a_single_broker() -> None:
    for name in (*INTERNAL_REPLICAS, "default.replication.factor", f"`{WORKERS_FOLDER}/1`"):
        assert name in TEXT
