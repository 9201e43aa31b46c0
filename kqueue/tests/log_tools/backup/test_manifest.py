from __future__ import annotations

from pathlib import Path

import pytest

from kqueue.log_tools.backup import (
    BackupDamaged,
    create_backup,
    restore_backup,
    verify_backup,
)
from kqueue.log_tools.backup.manifest import MANIFEST
from kqueue.tests.log_tools.backup.brokers import filled


def test_a_backup_without_its_manifest_is_no_backup(tmp_path: Path) -> None:
    filled(tmp_path / "data").stop()
    create_backup([tmp_path / "data"], tmp_path / "backup")
    (tmp_path / "backup" / MANIFEST).unlink()
    with pytest.raises(BackupDamaged, match=r"no complete backup: it has no kqueue-backup.json"):
        verify_backup(tmp_path / "backup")
    with pytest.raises(BackupDamaged):
        restore_backup(tmp_path / "backup", tmp_path / "restored")
    assert not (tmp_path / "restored").exists()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('{"format": 2}', "expected format 1, found 2; a newer kqueue made it"),
        ("{", "can't be read"),
        ('{"format": 1}', "can't be read"),
        (
            (
                '{"format": 1, "created_ms": 0, "release": "", "is_of_one_moment": true, "window_ms": 0, '
                '"folders": [], "store": null, "files": [["../outside", 1, null]]}'
            ),
            "names '../outside', which is not in the backup",
        ),
    ],
)
def test_a_manifest_that_can_not_be_used_is_refused_with_the_reason(content: str, words: str, tmp_path: Path) -> None:
    (tmp_path / MANIFEST).write_text(content)
    with pytest.raises(BackupDamaged, match=words):
        verify_backup(tmp_path)
