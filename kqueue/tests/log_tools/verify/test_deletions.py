"""Verification of a folder in which a running broker deletes segments and topics."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import kqueue
from kqueue.log_tools.verify import verify, verify_storage
from kqueue.storage import LocalStorage
from kqueue.storage.contract import FolderEntry


def test_after_deletions_there_is_nothing_to_say(tmp_path: Path) -> None:
    """Retention and topic deletion while their files wait for removal and checkpoints name them."""
    with kqueue.Broker(tmp_path, log_flush_offset_checkpoint_interval_ms=20_000) as broker:
        for name in ("kept", "gone"):
            broker.create_topic(name, segment_bytes=1000, retention_ms=1000)
            for number in range(10):
                broker.topics[name].produce(b"x" * 500, timestamp=number)
        broker.clock.advance(seconds=40)  # retention looks after 30 s; the files stay for a minute more
        broker.topics["gone"].delete()
        assert b"gone 0" in (tmp_path / "recovery-point-offset-checkpoint").read_bytes()
        (tmp_path / "gone-0.0123456789abcdef-delete").mkdir()
        assert list((tmp_path / "kept-0").glob("*.deleted"))
        report = verify(tmp_path)
        assert report.is_sound
        notes = {note.file for note in report.notes if not note.file.startswith("gone-0/")}  # may be read as they go
        assert notes <= {".kafka_cleanshutdown"}


class DeletingStorage(LocalStorage):
    """A data folder whose topic `gone` is deleted after the folders were listed."""

    def list(self, folder: str) -> list[FolderEntry]:
        entries = super().list(folder)
        if folder == "":
            shutil.rmtree(Path(self.location) / "gone-0", ignore_errors=True)
        return entries


@pytest.mark.parametrize("clean", [False, True])
def test_a_topic_deleted_during_the_verification(tmp_path: Path, clean: bool) -> None:
    """A running broker may delete it; in a folder without one nothing may disappear."""
    with kqueue.Broker(tmp_path) as broker:
        for name in ("kept", "gone"):
            broker.create_topic(name)
            broker.topics[name].produce(b"x")
    if not clean:
        (tmp_path / ".kafka_cleanshutdown").unlink()
    report = verify_storage(DeletingStorage(tmp_path))
    assert report.is_sound is not clean, report.findings
    assert report.partitions == 1
