"""The time of the first record from an offset on, in whatever a reader reads. No pyspark."""

from __future__ import annotations

from collections.abc import Iterator

from kqueue.base.errors import KqueueError
from kqueue.client.topic_partition import TopicPartition
from kqueue.log.scanner.batch_scanner import AnyHeader
from kqueue.log_tools.folder import LogFolder
from kqueue.records.any_format import iter_any_batches
from kqueue.records.batch import DECOMPRESSED_BYTES_MAX, BatchHeader, iter_records
from kqueue.records.message_set import entry_records
from kqueue.records.record import Record
from kqueue.spark.source.broker_reader import BrokerReader
from kqueue.spark.source.combined_reader import CombinedReader
from kqueue.spark.source.file_reader import FileReader
from kqueue.spark.source.record_reader import RecordReader
from kqueue.spark.source.tier_reader import TierRecordReader


def first_time(reader: RecordReader, topic_partition: TopicPartition, offset: int, end: int) -> int | None:
    """Return the timestamp of the first record in [offset, end), in ms since 1970.

    None: there is no record, or it has no timestamp, or it can't be read.
    """
    try:
        record = (
            _in_folder(reader, topic_partition, offset, end)
            if isinstance(reader, FileReader)
            else _in_batches(reader, topic_partition, offset, end)
        )
    except (KqueueError, FileNotFoundError):
        return None
    return None if record is None or record.timestamp < 0 else record.timestamp


def _in_folder(reader: FileReader, topic_partition: TopicPartition, offset: int, end: int) -> Record | None:
    log = LogFolder(reader.storage, f"{topic_partition.topic}-{topic_partition.partition}")
    return next(log.records(start_offset=offset, end_offset=end, check=False), None)


def _in_batches(reader: RecordReader, topic_partition: TopicPartition, offset: int, end: int) -> Record | None:
    assert isinstance(reader, (BrokerReader, CombinedReader, TierRecordReader))
    while offset < end:
        records = memoryview(reader.batches(topic_partition, offset))
        begin = offset
        for position, unit in iter_any_batches(records):
            if not (isinstance(unit, BatchHeader) and unit.is_control):
                for record in _records(records, position, unit):
                    if record.offset >= begin:
                        return record
            offset = unit.next_offset
        if offset == begin:
            return None
    return None


def _records(buf: memoryview, position: int, unit: AnyHeader) -> Iterator[Record]:
    return (
        iter_records(buf, position)
        if isinstance(unit, BatchHeader)
        else iter(entry_records(unit, DECOMPRESSED_BYTES_MAX))
    )
