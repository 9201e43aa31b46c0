from __future__ import annotations

import threading
from pathlib import Path

import pytest

import kqueue
from kqueue.log_tools.backup import (
    BackupRefused,
    create_backup,
    creation,
    file_copy,
    restore_backup,
    verify_backup,
)
from kqueue.tests.log_tools.backup.brokers import VALUES, filled, values_of


def test_a_backup_of_a_running_broker_starts_with_all_that_was_confirmed_before(tmp_path: Path) -> None:
    broker = filled(tmp_path / "data")
    try:
        manifest = create_backup([tmp_path / "data"], tmp_path / "backup")
        broker.topics["orders"].produce("too late")
    finally:
        broker.stop()
    assert manifest.is_of_one_moment
    assert manifest.folders[0].was_running
    assert verify_backup(tmp_path / "backup").damage == ()
    restore_backup(tmp_path / "backup", tmp_path / "restored")
    with kqueue.Broker(tmp_path / "restored") as restored:
        assert values_of(restored) == sorted(VALUES)


def test_a_backup_of_a_stopped_broker_is_stopped_cleanly(tmp_path: Path) -> None:
    filled(tmp_path / "data").stop()
    manifest = create_backup([tmp_path / "data"], tmp_path / "backup")
    assert not manifest.folders[0].was_running
    assert (tmp_path / "backup/folders/data/.kafka_cleanshutdown").exists()
    restore_backup(tmp_path / "backup", tmp_path / "restored")
    with kqueue.Broker(tmp_path / "restored") as restored:
        assert values_of(restored) == sorted(VALUES)


@pytest.mark.long
def test_a_backup_beside_a_busy_producer_holds_a_prefix_of_each_partition(tmp_path: Path) -> None:
    broker = filled(tmp_path / "data")
    is_done = threading.Event()

    def produce() -> None:
        number = 0
        while not is_done.is_set():
            broker.topics["orders"].produce_all([f"busy {number + one}" for one in range(10)], partition=0)
            number += 10

    producer = threading.Thread(target=produce)
    producer.start()
    try:
        for number in range(3):
            create_backup([tmp_path / "data"], tmp_path / f"backup-{number}")
    finally:
        is_done.set()
        producer.join()
        broker.stop()
    for number in range(3):
        assert verify_backup(tmp_path / f"backup-{number}").damage == ()
        restore_backup(tmp_path / f"backup-{number}", tmp_path / f"restored-{number}")
        with kqueue.Broker(tmp_path / f"restored-{number}") as restored:
            values = [record.value.decode() for record in restored.topics["orders"].records(partition=0)]
        busy = [value for value in values if value.startswith("busy")]
        assert busy == [f"busy {one}" for one in range(len(busy))]
        assert set(VALUES[:20]) <= set(values)


def test_invalid_backup_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    filled(tmp_path / "data").stop()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("text")
    with pytest.raises(BackupRefused, match="full is not empty"):
        create_backup([tmp_path / "data"], tmp_path / "full")
    with pytest.raises(BackupRefused, match="outside of the data folders"):
        create_backup([tmp_path / "data"], tmp_path / "data" / "backup")
    with pytest.raises(BackupRefused, match="is no data folder"):
        create_backup([tmp_path / "full"], tmp_path / "backup")
    with pytest.raises(BackupRefused, match="name the SQLite file"):
        create_backup([tmp_path / "data"], tmp_path / "backup", store=tmp_path / "none.db")
    create_backup([tmp_path / "data"], tmp_path / "other")
    with pytest.raises(BackupRefused, match="full is not empty"):
        restore_backup(tmp_path / "other", tmp_path / "full")
    with pytest.raises(BackupRefused, match="it has data"):
        restore_backup(tmp_path / "other", tmp_path / "restored", only="data-2")


def test_a_partition_that_changes_while_it_is_copied_is_copied_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Retention deletes its first segment in the middle."""
    broker = filled(tmp_path / "data")
    try:
        copy_file, is_first = file_copy.copy_file, True

        def copy(source: Path, target: Path, size: int, **keywords: object) -> None:
            nonlocal is_first
            if source.suffix == ".log" and is_first:
                is_first = False
                source.rename(f"{source}.deleted")
            copy_file(source, target, size, **keywords)  # type: ignore[arg-type]

        monkeypatch.setattr(creation, "copy_file", copy)
        create_backup([tmp_path / "data"], tmp_path / "backup")
        first = min(path.name for path in (tmp_path / "backup/folders/data/orders-0").glob("*.log"))
        assert first > "00000000000000000000.log"
    finally:
        broker.stop()
