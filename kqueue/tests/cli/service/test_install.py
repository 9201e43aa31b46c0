from __future__ import annotations

import os
from pathlib import Path

import pytest

from kqueue.cli.service import systemd
from kqueue.cli.service.layout import RECORD, TARGETS
from kqueue.tests.cli.service.support import EXECUTABLE, SETTINGS, UNIT_PATH, files_below, install, run


def test_all_files_are_written_below_the_root(tmp_path: Path) -> None:
    install(tmp_path)
    assert files_below(tmp_path) == {*TARGETS.values(), RECORD}
    assert install(tmp_path) == "all files are there\n"


def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    printed = run("install", "--dry-run", "--root", str(tmp_path), "--executable", EXECUTABLE).output
    assert [line.split()[:2] for line in printed.splitlines()] == [
        ["write", str(tmp_path / path)] for path in (*TARGETS.values(), RECORD)
    ]
    assert list(tmp_path.iterdir()) == []


def test_edited_settings_stay_and_a_moved_executable_is_in_the_new_unit(tmp_path: Path) -> None:
    install(tmp_path)
    (tmp_path / SETTINGS).write_text("listeners=SASL_SSL://:9092\n")
    printed = install(tmp_path, "/usr/local/bin/kqueue")
    assert "new version" in printed
    assert "ExecStart=/usr/local/bin/kqueue serve" in (tmp_path / UNIT_PATH).read_text()
    assert (tmp_path / SETTINGS).read_text() == "listeners=SASL_SSL://:9092\n"


def test_without_root_nothing_is_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    done = run("install", "--executable", EXECUTABLE)
    assert done.exit_code == 1
    assert "root is needed: use sudo, or --dry-run" in done.output


@pytest.mark.parametrize("now", [False, True])
def test_systemd_reads_the_files_in_this_order(monkeypatch: pytest.MonkeyPatch, now: bool) -> None:
    calls: list[str] = []
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr("kqueue.cli.service.install.install_changes", lambda root, files: [])
    monkeypatch.setattr(systemd, "call", lambda *words: calls.append(" ".join(words)))
    monkeypatch.setattr(systemd, "is_running", lambda: True)
    done = run("install", "--executable", EXECUTABLE, *(["--now"] if now else []))
    assert done.exit_code == 0, done.output
    assert calls == [
        "systemd-sysusers /etc/sysusers.d/kqueue.conf",
        "systemd-tmpfiles --create /etc/tmpfiles.d/kqueue.conf",
        "systemctl daemon-reload",
        *(["systemctl enable --now kqueue.service"] if now else []),
    ]
    assert ("Start it:  systemctl enable --now kqueue" in done.output) is not now


def test_a_folder_that_can_not_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "etc").write_text("")
    done = run("install", "--root", str(tmp_path), "--executable", EXECUTABLE)
    assert done.exit_code == 1
    assert "can't write" in done.output
