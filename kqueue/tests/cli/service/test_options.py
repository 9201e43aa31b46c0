from __future__ import annotations

import os
from pathlib import Path

import click
import pytest

from kqueue.cli.service.conffiles import Change
from kqueue.cli.service.options import SYSTEM, check_rights, make_changes


def test_only_a_change_of_the_system_itself_needs_root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    check_rights(tmp_path, dry_run=False)
    check_rights(SYSTEM, dry_run=True)
    with pytest.raises(click.ClickException, match="root is needed"):
        check_rights(SYSTEM, dry_run=False)


def test_each_change_is_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a"
    make_changes([Change(path, "x", "new"), Change(path, None, "old")], dry_run=False)
    assert capsys.readouterr().out == f"write    {path}  (new)\nremove   {path}  (old)\n"
    assert not path.exists()
