"""Opens the reader that the options select. No pyspark."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from kqueue.client.topic_partition import TopicPartition
from kqueue.spark.errors import OptionError
from kqueue.spark.source.options import SourceOptions
from kqueue.spark.source.record_reader import RecordReader


def open_reader(options: SourceOptions) -> RecordReader:
    """Return the reader that the options select. Raises: as the reader does."""
    if options.tier is not None and options["kafka.bootstrap.servers"] is not None:
        from kqueue.spark.source.combined_reader import CombinedReader

        return CombinedReader(options)
    if options.tier is not None:
        from kqueue.spark.source.tier_reader import TierRecordReader

        return TierRecordReader(options)
    if options["path"] is not None:
        from kqueue.spark.source.file_reader import FileReader

        return FileReader(options)
    from kqueue.spark.source.broker_reader import BrokerReader

    return BrokerReader(options)


def open_first(options: SourceOptions) -> RecordReader:
    """Return the reader of a query that begins, once a broker, if it reads any, has answered it.

    A broker that is away later is waited for longer. Raises: as the reader does.
    """
    reader = open_reader(options)
    try:
        if reader.client is not None:
            reader.client.metadata([], timeout_ms=options.first_answer_ms)
    except BaseException:
        reader.close()
        raise
    return reader


def check_readable(options: SourceOptions, *, some: bool = True) -> None:
    """Check that the topics exist, that a pattern matches some, and that not all they have is in
    segments that are not read, before a job makes its folder.

    Args:
        some: False: there may be nothing to read, as the job has read from them before.
    Raises: OptionError. As the reader does.
    """
    with contextlib.closing(open_first(options)) as reader:
        partitions = find_some(reader, options) if some else reader.find_partitions(options.topics, strict=True)
        reader.latest(partitions)  # leaders may be out of reach where the named broker is not
        if some:
            refuse_if_all_unread(reader, partitions)


def find_some(reader: RecordReader, options: SourceOptions) -> list[TopicPartition]:
    """Return the selected partitions. Raises OptionError: a name or a pattern selects no topic."""
    partitions = reader.find_partitions(options.topics, strict=True)
    if not partitions and options.topics.pattern is not None:
        servers = options["kafka.bootstrap.servers"]
        where = f"in {options['path']}" if servers is None else f"on {servers}"
        raise OptionError(f"no topic {where} matches the pattern {options.topics.pattern!r}")
    return partitions


def refuse_if_all_unread(reader: RecordReader, partitions: Sequence[TopicPartition]) -> None:
    """Raise OptionError if the partitions have records, and none of them is read."""
    unread = reader.unread(partitions)
    if unread and reader.earliest(partitions) == reader.latest(partitions):
        raise OptionError(f"nothing can be read: {unread}")


def unread(options: SourceOptions) -> str:
    """Return what `RecordReader.unread` says of the selected topics."""
    if options["path"] is None or options.tier is not None:
        return ""
    with contextlib.closing(open_reader(options)) as reader:
        return reader.unread(reader.find_partitions(options.topics, strict=False))
