from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import kqueue
from kqueue.base.errors import SnapshotRefused, StorageFailed
from kqueue.broker.snapshots import Snapshot
from kqueue.log.formats.checkpoints import decode_properties
from kqueue.log_tools.verify import verify
from kqueue.metadata.memory import MemoryStore
from kqueue.metadata.sqlite import SqliteStore
from kqueue.storage import LocalStorage, MemoryStorage
from kqueue.testing.faulty_storage import FaultyStorage
from kqueue.tests import golden
from kqueue.tests.tables import for_each

MARK = ".kafka_cleanshutdown"


@pytest.fixture
def broker() -> Iterator[kqueue.Broker]:
    with kqueue.Broker() as broker:
        broker.create_topic("orders", 2, cleanup_policy="compact")
        broker.topics["orders"].produce_all([(f"k{number}", f"v{number}") for number in range(10)])
        yield broker


def contents(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Every file below, with its time of change."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.read_bytes()) for path in files}


# --- taking one


def test_a_snapshot_is_a_data_folder_after_a_clean_stop(broker: kqueue.Broker, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "snapshot"
    broker.snapshot(folder)
    assert verify(folder, deep=True).findings == []
    assert (folder / MARK).exists()
    assert not (folder / ".lock").exists()
    store = SqliteStore(folder / "kqueue.db")
    assert store.read("/").keys() >= {"/topics/orders", "/leader_epoch"}
    store.close()
    assert {record.value for partition in range(2) for record in kqueue.open_log(folder / f"orders-{partition}")} == {
        b"v%d" % number for number in range(10)
    }


def test_only_an_empty_folder_is_filled(broker: kqueue.Broker, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("keep")
    with pytest.raises(SnapshotRefused, match="is not empty"):
        broker.snapshot(tmp_path)
    assert contents(tmp_path).keys() == {"mine"}
    with pytest.raises(SnapshotRefused, match="no snapshot can be put into"):
        broker.snapshot(tmp_path / "mine")
    (tmp_path / "empty").mkdir()
    broker.snapshot(tmp_path / "empty")


@pytest.mark.parametrize("is_new", [True, False])
def test_failed_snapshot_removes_what_it_wrote(broker: kqueue.Broker, tmp_path: Path, is_new: bool) -> None:
    folder = tmp_path / "snapshot"
    if not is_new:
        folder.mkdir()

    async def break_one() -> None:
        broker._server.broker.topics.partition("orders", 1).log.abandon()

    broker._call(break_one)
    with pytest.raises(StorageFailed, match="orders-1"):
        broker.snapshot(folder)
    assert folder.exists() is not is_new
    assert list(tmp_path.iterdir()) == ([] if is_new else [folder])
    assert is_new or list(folder.iterdir()) == []


# --- beginning with one


def test_a_storage_and_a_store_are_filled_and_the_folder_is_left_alone(broker: kqueue.Broker, tmp_path: Path) -> None:
    broker.snapshot(tmp_path)
    before = contents(tmp_path)
    snapshot, storage, store = Snapshot(tmp_path), MemoryStorage(), MemoryStore()
    snapshot.fill([storage], 5)
    assert not snapshot.used
    snapshot.fill_store(store)
    assert snapshot.used
    assert contents(tmp_path) == before
    assert {entry.name for entry in storage.list("")} == {name.split("/")[0] for name in before} - {"kqueue.db"}
    for name, (_, data) in before.items():
        if name not in ("kqueue.db", "meta.properties"):
            assert storage.read(name) == data
    properties = decode_properties(storage.read("meta.properties"))
    assert (properties["node.id"], properties["version"]) == ("5", "1")
    metadata = broker._server.broker.metadata.cache
    assert {key: entry.value for key, entry in store.read("/").items()} == metadata.with_prefix("")


def test_a_read_only_folder_is_a_valid_snapshot(broker: kqueue.Broker, tmp_path: Path) -> None:
    folder = tmp_path / "snapshot"
    broker.snapshot(folder)
    for path in (*folder.rglob("*"), folder):
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        with kqueue.Broker(snapshot=folder) as other:
            assert len(other.topics["orders"].records()) == 10
            other.topics["orders"].produce("more", key="k")
        with kqueue.Broker(tmp_path / "copy", snapshot=folder) as other:
            other.topics["orders"].produce("more", key="k")
    finally:
        for path in (folder, *folder.rglob("*")):
            path.chmod(0o755)


@for_each("version", golden.VERSIONS)
def test_a_stopped_kafkas_folder_is_a_snapshot(version: str) -> None:
    folder = golden.data_folder(version)
    before = contents(folder)
    with kqueue.Broker(snapshot=folder, node_id=7) as broker:
        assert broker.topics["v2-three-partitions"].partitions == 3
        assert list(broker.groups) == ["golden-v2-gzip"]
        broker.topics["v2-none"].produce("more")
    assert contents(folder) == before


def test_a_running_brokers_folder_is_refused(tmp_path: Path) -> None:
    with (
        kqueue.Broker(tmp_path),
        pytest.raises(SnapshotRefused, match=f"{tmp_path}: it has no {MARK}, so a broker is using it"),
    ):
        kqueue.Broker(snapshot=tmp_path).start()
    with kqueue.Broker(snapshot=tmp_path):
        pass


def test_folder_without_a_snapshot_is_refused_with_the_reason(broker: kqueue.Broker, tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    broker.snapshot(whole)

    def refused(folder: Path, words: str) -> None:
        for destination in (None, tmp_path / "copy"):
            other = kqueue.Broker(destination, snapshot=folder)
            with pytest.raises(SnapshotRefused, match=words):
                other.start()
            assert not other.is_running
        assert contents(tmp_path / "copy") == {}

    refused(tmp_path / "nowhere", "nowhere: there is no such folder")
    refused(whole / "meta.properties", "there is no such folder")
    (tmp_path / "empty").mkdir()
    refused(tmp_path / "empty", "it has no meta.properties, so it is no data folder")
    refused(whole / "orders-0", "no data folder")
    broken = shutil.copytree(whole, tmp_path / "broken")
    (broken / "kqueue.db").write_bytes(b"no database at all" * 100)
    refused(broken, "snapshot .*broken: .*metadata store")
    (broken / "meta.properties").write_text("nonsense\n")
    refused(broken, "meta.properties: expected key=value")
    (broken / MARK).unlink()
    shutil.copy(whole / "meta.properties", broken)
    refused(broken, f"no {MARK}")
    mended = kqueue.Broker(snapshot=broken)
    with pytest.raises(SnapshotRefused):
        mended.start()
    for name in (MARK, "kqueue.db"):
        shutil.copy(whole / name, broken)
    with mended:
        assert len(mended.topics["orders"].records()) == 10


def test_data_that_is_there_is_not_overwritten(broker: kqueue.Broker, tmp_path: Path) -> None:
    broker.snapshot(tmp_path / "snapshot")
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "file").write_text("keep")
    with pytest.raises(SnapshotRefused, match="mine is not empty"):
        kqueue.Broker(mine, snapshot=tmp_path / "snapshot").start()
    assert contents(mine).keys() == {"file"}
    store = MemoryStore()
    store.commit({}, {"/topics/x": b""}, ())
    with pytest.raises(SnapshotRefused, match="the metadata store is not empty"):
        Snapshot(tmp_path / "snapshot").fill_store(store)
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "file").touch()
    with pytest.raises(SnapshotRefused, match="two is not empty"):
        Snapshot(tmp_path / "snapshot").fill([MemoryStorage(), LocalStorage(tmp_path / "two")], 1)


def test_an_unwritable_destination_is_not_reported_as_a_snapshot_error(broker: kqueue.Broker, tmp_path: Path) -> None:
    broker.snapshot(tmp_path)
    with pytest.raises(StorageFailed, match="No space left"):
        Snapshot(tmp_path).fill([FaultyStorage(capacity_bytes=100)], 1)


def test_many_begin_with_one(broker: kqueue.Broker, tmp_path: Path) -> None:
    broker.snapshot(tmp_path)
    brokers = [kqueue.Broker(snapshot=tmp_path) for _ in range(4)]
    try:
        for number, one in enumerate(brokers):
            one.start()
            one.topics["orders"].produce(f"of {number}", key="k0")
        for number, one in enumerate(brokers):
            values = {record.value for record in one.topics["orders"].records()}
            assert values == {b"v%d" % n for n in range(10)} | {b"of %d" % number}
    finally:
        for broker_data in brokers:
            broker_data.stop()


def test_names_that_are_no_partitions_are_left_behind(broker: kqueue.Broker, tmp_path: Path) -> None:
    broker.snapshot(tmp_path)
    for name in ("orders-0.0123-delete", "orders-1.0123-stray", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").touch()
    (tmp_path / "notes.txt").touch()
    storage = MemoryStorage()
    Snapshot(tmp_path).fill([storage], 1)
    assert {entry.name for entry in storage.list("") if entry.is_folder} == {"orders-0", "orders-1"}
    assert not storage.exists("notes.txt")
