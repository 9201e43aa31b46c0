"""`open_log` on the folders that Kafka itself wrote."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

import kqueue
from kqueue.base.errors import OffsetOutOfRange, StorageFailed
from kqueue.base.names import parse_partition_folder
from kqueue.files import LogFolder
from kqueue.tests import golden

FOLDERS = [(version, topic, partition) for version in golden.VERSIONS for topic, told in golden.expected(version).items()
           if ":" not in topic for partition in told.watermarks]  # fmt: skip


def opened(version: str, topic: str, partition: int) -> LogFolder:
    return kqueue.open_log(golden.data_folder(version) / f"{topic}-{partition}")


@pytest.mark.parametrize(("version", "topic", "partition"), FOLDERS)
def test_every_record_that_a_client_read(version: str, topic: str, partition: int) -> None:
    """S3.2, S3.3, S3.6: every format and codec of Kafka 2.8 and 4.3."""
    told = golden.expected(version)[topic]
    log = opened(version, topic, partition)
    assert (log.topic, log.partition) == (topic, partition)
    assert (log.start_offset, log.end_offset) == told.watermarks[partition]
    found = [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in log]
    assert found == [
        (r.offset, r.timestamp if r.timestamp_type else -1, r.key, r.value, r.headers) for r in told.of_partition(partition)
    ]


@pytest.mark.parametrize("version", golden.VERSIONS)
def test_aborted_transactions_are_left_out(version: str) -> None:
    told = golden.expected(version)["txn:committed"]
    for partition in told.watermarks:
        records = opened(version, "txn", partition).records(isolation="read_committed")
        assert [r.offset for r in records] == [r.offset for r in told.of_partition(partition)]


@pytest.mark.parametrize("version", golden.VERSIONS)
@pytest.mark.parametrize("topic", ["compacted", "v2-gzip", "txn"])
def test_reading_begins_and_ends_where_told(version: str, topic: str) -> None:
    """S4.1, S5.2: in a gap the next record counts."""
    log = opened(version, topic, 0)
    offsets = [r.offset for r in log]
    for wanted in range(log.start_offset, log.end_offset, 61):
        rest = [offset for offset in offsets if offset >= wanted]
        assert [r.offset for r in islice(log.records(start_offset=wanted), 3)] == rest[:3]
        assert [r.offset for r in log.records(start_offset=wanted, end_offset=wanted + 50)] == [o for o in rest if o < wanted + 50]


def test_below_the_start_is_refused() -> None:
    log = opened("2.8", "v2-gzip", 0)
    with pytest.raises(OffsetOutOfRange, match="-5 lies before the start of .*v2-gzip-0, which is 0"):
        log.records(start_offset=-5)
    with pytest.raises(ValueError, match="isolation is one of read_uncommitted, read_committed"):
        log.records(isolation="serializable")  # type: ignore[arg-type]


def test_every_partition_folder_opens() -> None:
    for version in golden.VERSIONS:
        for path in golden.data_folder(version).iterdir():
            if path.is_dir() and parse_partition_folder(path.name):
                log = kqueue.open_log(path)
                assert sum(batch.size for batch in log.batches()) == sum(segment.size for segment in log.segments)


def test_what_is_no_log_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name, sentence in (("nowhere", "there is no folder"), ("file", "is a file"), ("", "holds no log")):
        with pytest.raises(StorageFailed, match=sentence):
            kqueue.open_log(tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
