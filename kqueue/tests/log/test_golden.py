"""Folders that Kafka wrote: opened, read, rebuilt and written again."""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from kqueue.base.sliced_task import run_to_end
from kqueue.log.config import LogConfig
from kqueue.log.formats import checkpoints
from kqueue.log.formats.leader_epochs import decode_epochs, encode_epochs
from kqueue.log.formats.offset_index import OffsetIndex
from kqueue.log.formats.producer_snapshot import decode_snapshot, encode_snapshot
from kqueue.log.formats.time_index import TimeIndex
from kqueue.log.formats.transaction_index import AbortedTxn, decode_aborted
from kqueue.log.log import Log
from kqueue.log.manager import LogManager
from kqueue.log.producer_state import ProducerStateManager
from kqueue.log.recovery.producer_replay import replay
from kqueue.records.any_format import iter_any_records
from kqueue.records.batch import iter_batches, iter_records
from kqueue.storage import LocalStorage
from kqueue.testing.manual_clock import ManualClock
from kqueue.tests.golden import VERSIONS, copy_folder, data_folder, expected
from kqueue.tests.log.helpers import stable_end
from kqueue.tests.tables import for_each

NODE = {"2.8": 0, "4.3": 1}
NOW_MS = 1_795_226_700_000  # just after Kafka stopped, so that no producer has expired
INTERVAL_BYTES = 512  # as the topics were made with; internal ones have the default
ENTRY_WITHIN_BATCH = "00000000000000000200.timeindex"
TOPIC_ID = bytes(15) + b"\1"


def files(pattern: str) -> list[tuple[str, Path]]:
    return [(version, path) for version in VERSIONS for path in sorted(data_folder(version).rglob(pattern))]


def open_manager(version: str, folder: Path) -> LogManager:
    return LogManager([LocalStorage(folder)], clock=ManualClock(NOW_MS), rng=random.Random(1), node_id=NODE[version])


def open_logs(manager: LogManager) -> dict[tuple[str, int], Log]:
    logs = {}
    for key, partition_folder in manager.partition_folders().items():
        config = LogConfig.of() if key[0].startswith("__") else LogConfig.of(index_interval_bytes=INTERVAL_BYTES)
        logs[key] = manager.open(*key, partition_folder.topic_id or TOPIC_ID, config)
    return logs


@pytest.fixture(scope="module", params=VERSIONS)
def opened(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, dict[tuple[str, int], Log]]]:
    folder = copy_folder(request.param, tmp_path_factory.mktemp("golden"))
    manager = open_manager(request.param, folder)
    yield request.param, open_logs(manager)
    manager.close()


def test_every_partition_opens_and_reads_as_clients_of_kafka_read_it(
    opened: tuple[str, dict[tuple[str, int], Log]],
) -> None:
    version, logs = opened
    seen = 0
    for name, topic in expected(version).items():
        for partition, watermarks in topic.watermarks.items():
            log = logs.get((name, partition))
            if log is None:
                assert ":" in name, "only views like txn:committed have no folder of their own"
                continue
            assert (log.start_offset, log.end_offset) == watermarks
            records = {}
            offset = log.start_offset
            while fetched := log.read(offset, 2000, end_offset=log.end_offset):
                records.update({record.offset: record for record in iter_any_records(fetched.read())})
                offset = fetched.next_offset
            assert offset == log.end_offset
            for record in topic.of_partition(partition):
                mine = records[record.offset]
                assert (mine.key, mine.value, mine.headers) == (record.key, record.value, record.headers)
                assert mine.timestamp == record.timestamp or record.timestamp_type == 0
                seen += 1
    assert seen > 2000


def test_every_offset_and_time_is_found(opened: tuple[str, dict[tuple[str, int], Log]]) -> None:
    version, logs = opened
    old_formats = ("v0-none", "v0-gzip", "v1-none", "v1-lz4") if version == "2.8" else ()
    for name in ("v2-none", "v2-gzip", "v2-logappend", "compacted", *old_formats):
        log = logs[name, 0]
        records = expected(version)[name].of_partition(0)
        for record in records:
            fetched = log.read(record.offset, 100, end_offset=log.end_offset)
            offsets = [position.offset for position in iter_any_records(fetched.read())]
            assert record.offset in offsets
        assert not [segment for segment in log.segments if segment.index_mismatch], (
            "the indexes are right as they stand"
        )
        for record in records[::7] if not name.startswith("v0") else ():
            position = run_to_end(log.offset_for_time(record.timestamp, log.end_offset))
            first = next(one for one in records if one.timestamp >= record.timestamp)
            assert position is not None
            assert (position.timestamp, position.offset) == (first.timestamp, first.offset)
        assert not [segment for segment in log.segments if segment.index_mismatch]
        greatest = max(record.timestamp for record in records)
        assert run_to_end(log.offset_for_time(greatest + 10**12, log.end_offset)) is None


def test_transactions_that_kafka_aborted_are_known(opened: tuple[str, dict[tuple[str, int], Log]]) -> None:
    _, logs = opened
    log = logs["txn", 0]
    aborted = [(26, 46, 47), (89, 109, 110), (157, 177, 178), (225, 245, 246)]
    assert log.reader.aborted(0, log.end_offset) == [AbortedTxn(0, *row) for row in aborted]
    assert log.reader.aborted(47, 89) == []
    assert log.reader.aborted(46, 90) == [AbortedTxn(0, *row) for row in aborted[:2]]
    assert log.reader.aborted(100, 102) == [AbortedTxn(0, *aborted[1])]
    assert stable_end(log) == log.last_stable_offset(log.end_offset) == log.end_offset


def test_reading_committed_gives_what_a_client_of_kafka_got(opened: tuple[str, dict[tuple[str, int], Log]]) -> None:
    version, logs = opened
    log = logs["txn", 0]
    gone = [range(one.first_offset, one.last_offset) for one in log.reader.aborted(0, log.end_offset)]
    offset, records = 0, []
    while fetched := log.read(offset, 1 << 20, end_offset=log.last_stable_offset(log.end_offset)):
        data = fetched.read()
        for position, header in iter_batches(data):
            if not header.is_control:
                records += [
                    one for one in iter_records(data, position) if not any(one.offset in aborted for aborted in gone)
                ]
        offset = fetched.next_offset
    committed = expected(version)["txn:committed"].of_partition(0)
    assert [(one.offset, one.key, one.value) for one in records] == [
        (one.offset, one.key, one.value) for one in committed
    ]


def test_leader_epochs_answer_as_kafka_does(opened: tuple[str, dict[tuple[str, int], Log]]) -> None:
    _, logs = opened
    log = logs["v2-none", 0]
    assert log.epochs.end_offset_for(0, log.end_offset) == (0, 300)
    assert log.epochs.end_offset_for(1, log.end_offset) == (-1, -1)


@for_each("version, path", files("*.index"))
def test_indexes_of_kafka_pass_the_checks(version: str, path: Path) -> None:
    storage = LocalStorage(path.parent)
    index = OffsetIndex(storage, path.name, int(path.stem))
    index.check()
    times = TimeIndex(storage, path.with_suffix(".timeindex").name, int(path.stem))
    times.check()
    if index.entries.count:
        assert index.lookup(index.last().offset) == index.last()


@pytest.mark.parametrize("version", VERSIONS)
def test_rebuilt_indexes_equal_those_of_kafka(version: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    folder = copy_folder(version, tmp_path)
    original = data_folder(version)
    for path in folder.rglob("*index"):
        path.unlink()
    for path in folder.glob("*checkpoint"):
        path.unlink()
    (folder / ".kafka_cleanshutdown").unlink()
    manager = open_manager(version, folder)
    assert manager.was_unclean
    logs = open_logs(manager)
    for log in logs.values():
        log.close()
    compared = 0
    for path in original.rglob("*index"):
        mine = folder / path.relative_to(original)
        if path.parent.name in ("v0-none-0", "v1-none-0"):
            continue  # Kafka indexed the sets of messages as they came in, which are not to be seen any more
        if path.name.startswith(ENTRY_WITHIN_BATCH) and version == "2.8" and path.parent.name == "v2-none-0":
            # Kafka 2.8 gave the record's own offset where a batch was uncompressed; later ones, and
            # ours, give the batch's last
            assert mine.read_bytes()[:-4] == path.read_bytes()[:-4]
        elif path.stat().st_size or mine.exists():
            assert mine.read_bytes() == path.read_bytes(), path
            compared += path.stat().st_size > 0
    assert compared > 10


@for_each("version, path", files("*.snapshot"))
def test_snapshots_come_out_as_they_went_in(version: str, path: Path) -> None:
    data = path.read_bytes()
    assert encode_snapshot(decode_snapshot(data, int(path.stem))) == data


@pytest.mark.parametrize("version", VERSIONS)
def test_replaying_the_batches_gives_the_snapshots_of_kafka(version: str, tmp_path: Path) -> None:
    folder = copy_folder(version, tmp_path)
    logs = open_logs(open_manager(version, folder))
    compared = 0
    for (topic, partition), log in logs.items():
        for path in sorted((data_folder(version) / f"{topic}-{partition}").glob("*.snapshot")):
            if topic.startswith("v") and "v2" not in topic:
                continue
            producers = ProducerStateManager()
            replay(log.segments, producers, int(path.stem))
            assert encode_snapshot(producers) == path.read_bytes(), path
            compared += path.stat().st_size > 10
    assert compared >= 2


def test_epochs_come_out_as_they_went_in() -> None:
    for _, path in files("leader-epoch-checkpoint"):
        data = path.read_bytes()
        assert encode_epochs(decode_epochs(data)) == data


@for_each("version, path", files("*.txnindex"))
def test_indexes_of_aborted_transactions_are_read(version: str, path: Path) -> None:
    assert [one.first_offset for one in decode_aborted(path.read_bytes())] == [26, 89, 157, 225]


@for_each(
    "name",
    [checkpoints.RECOVERY_POINTS, checkpoints.HIGH_WATERMARKS, checkpoints.LOG_STARTS, "cleaner-offset-checkpoint"],
)
@for_each("version", VERSIONS)
def test_offset_checkpoints_come_out_as_they_went_in(version: str, name: str) -> None:
    data = (data_folder(version) / name).read_bytes()
    offsets = checkpoints.decode_offsets(data)
    assert checkpoints.encode_offsets(offsets) == data
    if name == checkpoints.RECOVERY_POINTS:
        assert offsets["txn", 0] == 267


def test_properties_and_ids_come_out_as_they_went_in() -> None:
    folder = data_folder("4.3")
    data = (folder / checkpoints.META_PROPERTIES).read_bytes()
    values = checkpoints.decode_properties(data)
    assert values["cluster.id"] == "6m9qaQLpTRG4j-3JpfRjEQ"
    written_ms = 1_795_226_660_000  # Sat Nov 21 02:04:20 UTC 2026
    assert checkpoints.encode_properties(values, written_ms) == data
    for path in folder.rglob("partition.metadata"):
        assert (
            checkpoints.encode_partition_metadata(checkpoints.decode_partition_metadata(path.read_bytes()))
            == path.read_bytes()
        )
    assert checkpoints.encode_clean_shutdown(13) == (folder / checkpoints.CLEAN_SHUTDOWN).read_bytes()


@pytest.mark.parametrize("version", VERSIONS)
def test_a_folder_of_kafka_that_was_opened_and_closed_opens_again(version: str, tmp_path: Path) -> None:
    folder = copy_folder(version, tmp_path)
    for _ in range(2):
        manager = open_manager(version, folder)
        assert not manager.was_unclean
        assert {key: log.end_offset for key, log in open_logs(manager).items() if key[0] == "txn"} == {("txn", 0): 267}
        manager.close()
    assert not list(folder.rglob("*.deleted"))
