from __future__ import annotations

import json
from pathlib import Path

import pytest

from kqueue.cli.service import systemd
from kqueue.tests.cli.service.support import SETTINGS, install, run


def test_edited_files_are_there_and_missing_ones_are_not(tmp_path: Path) -> None:
    assert run("status", "--root", str(tmp_path)).exit_code == 1
    install(tmp_path, "/usr/local/bin/kqueue")
    (tmp_path / SETTINGS).write_text("a=1\n")
    done = run("status", "--root", str(tmp_path), "-o", "json")
    assert done.exit_code == 0
    states = json.loads(done.output)
    assert states["files"][str(tmp_path / SETTINGS)] == "edited"
    assert sorted(states["files"].values()) == ["edited", "installed", "installed", "installed"]
    (tmp_path / SETTINGS).unlink()
    done = run("status", "--root", str(tmp_path))
    assert done.exit_code == 1
    assert done.output.splitlines()[-1].split() == [str(tmp_path / SETTINGS), "missing"]


@pytest.mark.parametrize(("active", "code"), [("active", 0), ("failed", 1)])
def test_of_the_system_the_service_has_to_run(monkeypatch: pytest.MonkeyPatch, active: str, code: int) -> None:
    monkeypatch.setattr(systemd, "answer", lambda *words: active if words[1] == "is-active" else "enabled")
    monkeypatch.setattr("kqueue.cli.service.status.service_files", lambda executable: [])
    done = run("status")
    assert (done.exit_code, done.output.splitlines()[-1].split("  ")[-1]) == (code, f"{active}, enabled")


def test_settings_that_can_not_be_read_need_root(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(root: Path) -> None:
        raise PermissionError(13, "Permission denied", "/etc/kqueue/.installed")

    monkeypatch.setattr("kqueue.cli.service.status.read_record", refuse)
    assert "/etc/kqueue/.installed can't be read: root is needed" in run("status").output
