from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import click
import pytest

from kqueue.cli.service import systemd


def done(code: int, output: str = "", errors: str = "") -> Any:
    return lambda words, **_: subprocess.CompletedProcess(words, code, output, errors)


def test_a_command_that_fails_is_named_with_what_it_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(subprocess, "run", done(0))
    systemd.call("systemctl", "daemon-reload")
    assert capsys.readouterr().out == "run      systemctl daemon-reload\n"
    monkeypatch.setattr(subprocess, "run", done(1, errors="no bus\n"))
    with pytest.raises(click.ClickException, match="systemctl daemon-reload: no bus"):
        systemd.call("systemctl", "daemon-reload")


def test_a_command_that_is_missing_is_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    systemd.call("systemd-sysusers", "x")
    assert capsys.readouterr().out == "left out, as there is no systemd-sysusers: systemd-sysusers x\n"
    assert systemd.answer("systemctl", "is-active") == "unknown"


def test_the_answer_is_the_word_that_is_printed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(systemd, "RUNNING", tmp_path)
    assert systemd.is_running()
    monkeypatch.setattr(subprocess, "run", done(3, "inactive\n"))
    assert systemd.answer("systemctl", "is-active") == "inactive"
    monkeypatch.setattr(systemd, "RUNNING", tmp_path / "none")
    assert systemd.answer("systemctl", "is-active") == "unknown"
