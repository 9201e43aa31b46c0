from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kqueue.log_tools.backup import (
    create_backup,
    verify_backup,
)
from kqueue.tests.log_tools.backup.brokers import cut, filled, flip


def damaged(backup: Path, change: Callable[[Path], object], pattern: str) -> str:
    change(next(iter(sorted(backup.rglob(pattern)))))
    (line, *_) = verify_backup(backup).damage
    return line


@pytest.mark.parametrize(
    ("change", "pattern", "words"),
    [
        (Path.unlink, "*.log", "missing"),
        (cut, "*.log", "bytes, found"),
        (flip, "*.log", "expected"),
        (flip, "kqueue.db", "its SHA-256 is not"),
        (flip, "meta.properties", "its SHA-256 is not"),
        (cut, "*.timeindex", "bytes, found"),
    ],
)
def test_damage_of_a_backup_is_found(
    change: Callable[[Path], object], pattern: str, words: str, tmp_path: Path
) -> None:
    filled(tmp_path / "data").stop()
    create_backup([tmp_path / "data"], tmp_path / "backup")
    assert words in damaged(tmp_path / "backup", change, pattern)
