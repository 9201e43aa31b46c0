from __future__ import annotations

from pathlib import Path

import pytest

from kqueue.cli.service.conffiles import (
    Change,
    State,
    apply,
    install_changes,
    read_record,
    state_of,
    uninstall_changes,
)
from kqueue.cli.service.layout import RECORD, ServiceFile

FILE = ServiceFile("server.properties", "etc/kqueue/server.properties", "a=1\n")
NEWER = FILE._replace(text="a=2\n")


def install(root: Path, file: ServiceFile) -> list[Change]:
    changes = install_changes(root, [file])
    for change in changes:
        apply(change)
    return changes


def test_a_new_file_is_written_and_a_second_installation_changes_nothing(tmp_path: Path) -> None:
    install(tmp_path, FILE)
    assert (tmp_path / FILE.path).read_text() == "a=1\n"
    assert state_of(tmp_path, FILE, read_record(tmp_path)) is State.CURRENT
    assert install_changes(tmp_path, [FILE]) == []


def test_a_file_that_nobody_edited_gets_its_new_version(tmp_path: Path) -> None:
    install(tmp_path, FILE)
    assert state_of(tmp_path, NEWER, read_record(tmp_path)) is State.OUTDATED
    install(tmp_path, NEWER)
    assert (tmp_path / FILE.path).read_text() == "a=2\n"


def test_an_edited_file_stays_and_its_new_version_is_beside_it(tmp_path: Path) -> None:
    install(tmp_path, FILE)
    edited = tmp_path / FILE.path
    edited.write_text("a=3\n")
    assert state_of(tmp_path, FILE, read_record(tmp_path)) is State.EDITED
    assert install(tmp_path, FILE) == []
    install(tmp_path, NEWER)
    assert edited.read_text() == "a=3\n"
    assert (tmp_path / f"{FILE.path}.new").read_text() == "a=2\n"
    assert state_of(tmp_path, NEWER, read_record(tmp_path)) is State.EDITED_OUTDATED
    assert install(tmp_path, NEWER) == []
    edited.write_text("a=2\n")  # merged
    install(tmp_path, NEWER)
    assert state_of(tmp_path, NEWER, read_record(tmp_path)) is State.CURRENT


def test_a_file_that_was_there_before_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / FILE.path
    path.parent.mkdir(parents=True)
    path.write_text("mine\n")
    install(tmp_path, FILE)
    assert path.read_text() == "mine\n"
    assert (tmp_path / f"{FILE.path}.new").read_text() == "a=1\n"


def test_a_crash_before_the_record_is_written_leaves_files_that_are_there(tmp_path: Path) -> None:
    *files, record = install_changes(tmp_path, [FILE])
    assert record.path == tmp_path / RECORD
    for change in files:
        apply(change)
    assert state_of(tmp_path, FILE, read_record(tmp_path)) is State.CURRENT
    assert install_changes(tmp_path, [FILE]) == [record]


def test_settings_and_edited_files_stay_unless_purged(tmp_path: Path) -> None:
    unit = ServiceFile("kqueue.service", "etc/systemd/system/kqueue.service", "[Unit]\n")
    for file in (FILE, unit):
        install(tmp_path, file)
    assert [change.path for change in uninstall_changes(tmp_path, [FILE, unit], purge=False)] == [
        tmp_path / unit.path,
        tmp_path / RECORD,
    ]
    (tmp_path / unit.path).write_text("[Unit]\nWants=x\n")
    assert uninstall_changes(tmp_path, [FILE, unit], purge=False) == []
    for change in uninstall_changes(tmp_path, [FILE, unit], purge=True):
        apply(change)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_record_of_anything_is_read_as_no_checksums(tmp_path: Path) -> None:
    record = tmp_path / RECORD
    record.parent.mkdir(parents=True)
    record.write_bytes(b"\xff\x00" * 100_000 + b"\nabc  x\n")
    assert read_record(tmp_path) == {}


def test_a_change_that_fails_leaves_no_other_file(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(OSError, match="taken"):
        apply(Change(tmp_path / "taken", "text", "new"))
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]
