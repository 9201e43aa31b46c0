from __future__ import annotations

import os
from pathlib import Path

import pytest

from kqueue.log_tools.backup import (
    create_backup,
    file_copy,
)
from kqueue.tests.log_tools.backup.brokers import filled


@pytest.mark.skipif(os.name == "nt", reason="needs hard links")
def test_sealed_and_flushed_segments_are_linked_and_the_active_one_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_copy, "_share_blocks", lambda original, copy: False)
    filled(tmp_path / "data").stop()
    create_backup([tmp_path / "data"], tmp_path / "backup")
    logs = sorted((tmp_path / "backup/folders/data/orders-0").glob("*.log"))
    assert len(logs) > 2
    linked = [log.samefile(tmp_path / "data/orders-0" / log.name) for log in logs]
    assert linked == [*([True] * (len(logs) - 1)), False]
    assert all(path.stat().st_nlink == 1 for path in (tmp_path / "backup").rglob("*") if path.suffix == ".index")


def test_a_file_that_is_shorter_than_noted_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"short")
    with pytest.raises(EOFError, match="has become shorter than 6 bytes"):
        file_copy.copy_file(tmp_path / "source", tmp_path / "copy", 6, may_link=False, add=print)


def test_a_copy_ends_at_the_noted_size_and_is_not_linked_then(tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"noted, and more")
    done: list[int] = []
    file_copy.copy_file(tmp_path / "source", tmp_path / "copy", 5, may_link=True, add=done.append)
    assert (tmp_path / "copy").read_bytes() == b"noted"
    assert not (tmp_path / "copy").samefile(tmp_path / "source")
    assert sum(done) == 5
