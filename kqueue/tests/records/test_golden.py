"""Every batch in the log folders that Kafka 2.8 and 4.3 wrote, in every format and codec, against
what a client read of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from kqueue.records.any_format import iter_any_batches, iter_any_records
from kqueue.records.batch import (
    BatchHeader,
    check_crc,
    iter_batches,
    iter_records,
    read_header,
    set_log_append_time,
    stamp,
)
from kqueue.records.message_set import LegacyEntry, check_entry
from kqueue.records.record import ABORT, COMMIT, Record, decode_control
from kqueue.tests import golden
from kqueue.tests.records.conversions import down_convert, up_convert
from kqueue.tests.tables import for_each

TOPICS = [
    (version, topic)
    for version in golden.VERSIONS
    for topic in golden.expected(version)
    if not topic.endswith(":committed")
]
Unit = tuple[BatchHeader | LegacyEntry, bytes]


def log_files(version: str, folder: str = "*") -> list[Path]:
    return sorted(golden.data_folder(version).glob(f"{folder}/*.log"))


def units(version: str, topic: str, partition: int) -> Iterator[Unit]:
    """Header or entry, and its bytes, of all that is in the partition's log; checksums checked,
    files read to their ends.
    """
    for path in log_files(version, f"{topic}-{partition}"):
        data, end = path.read_bytes(), 0
        for pos, unit in iter_any_batches(data):
            assert pos == end
            end = pos + unit.size
            if isinstance(unit, BatchHeader):
                check_crc(data, pos, unit)
            else:
                check_entry(data, unit)
            yield unit, data[pos:end]
        assert end == len(data), path


def is_control(unit: BatchHeader | LegacyEntry) -> bool:
    return isinstance(unit, BatchHeader) and unit.is_control


def as_a_client_says(unit: BatchHeader | LegacyEntry, record: Record, partition: int) -> golden.ExpectedRecord:
    kind = 2 if unit.is_log_append_time else 1 if unit.magic else 0
    time = record.timestamp if unit.magic else 0  # librdkafka's word for no time
    return golden.ExpectedRecord(partition, record.offset, kind, time, record.key, record.value, record.headers)


@for_each("version, topic", TOPICS)
def test_every_record_is_read(version: str, topic: str) -> None:
    about = golden.expected(version)[topic]
    for partition, (_, high) in about.watermarks.items():
        records_read, next_offset = [], 0
        for unit, data in units(version, topic, partition):
            records = list(iter_any_records(data))
            assert unit.next_offset > next_offset or next_offset == 0
            next_offset = unit.next_offset
            assert all(record.offset <= unit.last_offset for record in records)
            if records and unit.magic and not unit.is_log_append_time:
                assert unit.max_timestamp == max(record.timestamp for record in records)
            if not is_control(unit):
                records_read += [as_a_client_says(unit, record, partition) for record in records]
        assert records_read == about.of_partition(partition)
        assert next_offset == high


def test_the_folders_hold_all_that_this_is_to_show() -> None:
    kinds = {
        (unit.magic, unit.codec_id)
        for version, topic in TOPICS
        for partition in golden.expected(version)[topic].watermarks
        for unit, _ in units(version, topic, partition)
    }
    assert kinds == {
        (0, 0),
        (0, 1),
        (0, 2),
        (0, 3),
        (1, 0),
        (1, 1),
        (1, 2),
        (1, 3),
        (2, 0),
        (2, 1),
        (2, 2),
        (2, 3),
        (2, 4),
    }


@for_each("version", golden.VERSIONS)
def test_every_log_file_is_read_to_its_end(version: str) -> None:
    """Internal topics, cleaned and uncleaned segments, the metadata log of 4.3 and its snapshot
    too.
    """
    paths = [
        *log_files(version),
        *golden.data_folder(version).glob("*/*.log.deleted"),
        *golden.data_folder(version).glob("*/*.checkpoint"),
    ]
    assert len(paths) > 40
    count = 0
    for path in paths:
        data, end = path.read_bytes(), 0
        for pos, unit in iter_any_batches(data):
            end = pos + unit.size
            if isinstance(unit, BatchHeader):
                check_crc(data, pos, unit)
                count += len(list(iter_records(data, pos))) == unit.record_count
            else:
                count += 1
        assert end == len(data), path
    assert count > 100


@for_each("version", golden.VERSIONS)
def test_markers_of_kafka_tell_committed_records(version: str) -> None:
    """Markers say which records a reader of committed ones may see."""
    committed: list[int] = []
    open_offsets: dict[int, list[int]] = {}
    kinds = set()
    for unit, data in units(version, "txn", 0):
        assert isinstance(unit, BatchHeader)
        if unit.is_control:
            (record,) = iter_records(data)
            kind, record_version = decode_control(record)
            assert record_version == 0
            kinds.add(kind)
            offsets = open_offsets.pop(unit.producer_id, [])
            committed += offsets if kind == COMMIT else []
        elif unit.is_transactional:
            open_offsets.setdefault(unit.producer_id, []).extend(record.offset for record in iter_records(data))
        else:
            committed += [record.offset for record in iter_records(data)]
    assert kinds == {COMMIT, ABORT}
    assert sorted(committed) == [record.offset for record in golden.expected(version)["txn:committed"].of_partition(0)]


@for_each("version, topic", TOPICS)
def test_down_and_up(version: str, topic: str) -> None:
    """For fetchers of magic 0 and 1, and from producers of these."""
    about = golden.expected(version)[topic]
    for partition in about.watermarks:
        plain = [(record.offset, record.key, record.value) for record in about.of_partition(partition)]
        log = b"".join(data for _, data in units(version, topic, partition))
        for magic in (0, 1):
            old = down_convert(log, magic)
            assert all(unit.magic <= magic for _, unit in iter_any_batches(old))
            assert [(record.offset, record.key, record.value) for record in iter_any_records(old)] == plain
            if topic != "v2-logappend":
                again = [record for batch in up_convert(old) for record in iter_records(batch)]
                assert [(record.key, record.value) for record in again] == [(key, value) for _, key, value in plain]


@for_each("version", golden.VERSIONS)
def test_we_stamp_and_seal_as_kafka_does(version: str) -> None:
    """Kafka's LogAppendTime batch, taken back to what a producer sent, comes out the same byte for
    byte.
    """
    for unit, data in units(version, "v2-logappend", 0):
        assert isinstance(unit, BatchHeader)
        batch = bytearray(data)
        batch[21:23] = (unit.attributes & ~0x08).to_bytes(2)
        stamp(batch, 0, 0, -1)
        set_log_append_time(batch, 0, unit.max_timestamp)
        stamp(batch, 0, unit.base_offset, unit.leader_epoch)
        assert batch == data
        assert read_header(batch) == next(iter_batches(data))[1]
