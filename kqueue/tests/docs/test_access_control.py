"""Tests of docs/access-control.md: its commands run, its settings are settings."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

import kqueue
from kqueue.cli.acl_options import OPERATIONS
from kqueue.cli.app import kqueue as root
from kqueue.security.standard_authorizer import StandardAuthorizer
from kqueue.tests.config.configs import read_config

TEXT = (Path(__file__).parents[3] / "docs" / "access-control.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.M | re.S)


def test_the_commands_run_one_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    first, later = blocks("sh")
    (settings,) = blocks("properties")
    Path("server.properties").write_text(settings.replace("User:admin", "User:ANONYMOUS"))
    config = read_config("server.properties")
    values = {name: config[name] for name in ("authorizer.class.name", "super.users")}
    for line in first.splitlines():
        result = CliRunner().invoke(root, shlex.split(line)[1:])
        assert result.exit_code == 0, result.output
    with kqueue.Broker("kqueue-data", settings=values) as broker:
        inner = broker._server.broker.security.authorizer
        assert isinstance(inner._inner, StandardAuthorizer)  # type: ignore[union-attr]
        for line in later.splitlines():
            result = CliRunner().invoke(root, shlex.split(line)[1:], env={"KQUEUE_BOOTSTRAP": broker.bootstrap})
            assert result.exit_code == 0, result.output
        left = {str(binding) for binding in broker._server.broker.security.acls.index}
    assert left == {
        "User:admin allow all cluster",
        "User:bob allow read group:billing",
        "User:eve allow read topic prefixed:eu.",
        "User:eve deny all topic:* from 10.0.0.7",
    }


def test_all_operations_are_listed() -> None:
    (row,) = re.findall(r"^\| operation \| (.*) \|$", TEXT, re.M)
    assert set(re.findall(r"[A-Z]\w+", row)) == set(OPERATIONS)
