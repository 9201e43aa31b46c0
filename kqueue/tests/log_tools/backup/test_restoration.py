from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import kqueue
from kqueue.base.errors import StorageFailed
from kqueue.embedded.cluster import STORE_FILE
from kqueue.log_tools.backup import (
    BackupDamaged,
    create_backup,
    creation,
    file_copy,
    restoration,
    restore_backup,
    verify_backup,
)
from kqueue.tests.log_tools.backup.brokers import VALUES, filled, flip, values_of


def test_a_restored_folder_shares_no_file_with_the_backup(tmp_path: Path) -> None:
    filled(tmp_path / "data").stop()
    create_backup([tmp_path / "data"], tmp_path / "backup")
    restore_backup(tmp_path / "backup", tmp_path / "restored")
    for path in (tmp_path / "restored").rglob("*.log"):
        assert path.stat().st_nlink == 1


@pytest.mark.parametrize(
    ("pattern", "words"), [("kqueue.db", "kqueue.db: its SHA-256"), ("orders-*/*.log", r"\.log: expected")]
)
def test_a_damaged_backup_is_not_restored(pattern: str, words: str, tmp_path: Path) -> None:
    filled(tmp_path / "data").stop()
    create_backup([tmp_path / "data"], tmp_path / "backup")
    flip(max((tmp_path / "backup/folders/data").glob(pattern), key=lambda path: path.stat().st_size))
    with pytest.raises(BackupDamaged, match=rf"{words} .* Use another backup"):
        restore_backup(tmp_path / "backup", tmp_path / "restored")
    assert not (tmp_path / "restored").exists()


@pytest.mark.parametrize("calls", [1, 5, 20])
def test_a_backup_or_a_restore_that_is_interrupted_leaves_nothing_that_starts(
    calls: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(tmp_path / "data").stop()
    create_backup([tmp_path / "data"], tmp_path / "backup")
    copy_file = file_copy.copy_file
    count = 0

    def fail_at(*arguments: object, **keywords: object) -> None:
        nonlocal count
        count += 1
        if count == calls:
            raise OSError(5, "no power")
        copy_file(*arguments, **keywords)  # type: ignore[arg-type]

    for module in (creation, restoration):
        monkeypatch.setattr(module, "copy_file", fail_at)
    with pytest.raises(StorageFailed, match=r"not complete: .* make another one"):
        create_backup([tmp_path / "data"], tmp_path / "second")
    with pytest.raises(BackupDamaged):
        verify_backup(tmp_path / "second")
    count = 0
    with pytest.raises(StorageFailed, match="could not be restored"):
        restore_backup(tmp_path / "backup", tmp_path / "restored")
    assert not (tmp_path / "restored").exists()
    restore_backup(tmp_path / "backup", tmp_path / "restored")  # what it left is replaced
    with kqueue.Broker(tmp_path / "restored") as restored:
        assert values_of(restored) == sorted(VALUES)


def test_a_cluster_that_is_restored_with_its_store_is_as_of_the_backup(tmp_path: Path) -> None:
    settings = {"min.insync.replicas": 2, "replica.lag.time.max.ms": 30_000}
    with kqueue.Cluster(brokers=3, path=tmp_path / "data", settings=settings) as cluster:
        cluster.create_topic("orders", replicas={0: [0, 1, 2]})
        cluster[0].topics["orders"].produce_all(VALUES)
        cluster.wait_in_sync()
        folders = [tmp_path / "data" / f"broker-{id}" for id in range(3)]
        manifest = create_backup(folders, tmp_path / "backup", store=tmp_path / "data" / STORE_FILE)
        cluster[0].topics["orders"].produce_all(["late"] * 10)
    assert all(folder.is_member for folder in manifest.folders)
    assert verify_backup(tmp_path / "backup").damage == ()
    restore_backup(tmp_path / "backup", tmp_path / "restored")
    with kqueue.Cluster(brokers=3, path=tmp_path / "restored", settings=settings) as cluster:
        cluster.wait_in_sync()
        for broker in cluster.brokers:
            broker.assert_produced("orders", VALUES, within_s=30)
        cluster[cluster.wait_leader("orders")].topics["orders"].produce_all(["after"])


def test_a_member_that_is_restored_alone_copies_from_the_others(tmp_path: Path) -> None:
    settings = {"min.insync.replicas": 2, "replica.lag.time.max.ms": 30_000}
    cluster = kqueue.Cluster(brokers=3, path=tmp_path / "data", settings=settings).start()
    try:
        cluster.create_topic("orders", replicas={0: [0, 1, 2]})
        cluster[0].topics["orders"].produce_all(VALUES[:100])
        cluster.wait_in_sync()
        folder = tmp_path / "data" / "broker-2"
        create_backup([folder], tmp_path / "backup")  # of the same life: nothing registers after it
        cluster[0].topics["orders"].produce_all(VALUES[100:])
        cluster.wait_in_sync()
        cluster.kill(0, 1, 2)
        shutil.rmtree(folder)
        restore_backup(tmp_path / "backup", folder)
        cluster[2].start()
        assert cluster.leader("orders") != 2
        cluster.start()
        cluster.wait_in_sync()
        for broker in cluster.brokers:
            broker.assert_produced("orders", VALUES, within_s=30)
    finally:
        cluster.stop()
