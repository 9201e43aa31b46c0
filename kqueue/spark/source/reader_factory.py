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
    if options["path"] is not None:
        from kqueue.spark.source.file_reader import FileReader

        return FileReader(options)
    from kqueue.spark.source.broker_reader import BrokerReader

    return BrokerReader(options)


def check_readable(options: SourceOptions) -> None:
    """Check that the topics exist, and that not all they have is in segments that are not read,
    before a job makes its folder.

    Raises: OptionError. As the reader does.
    """
    with contextlib.closing(open_reader(options)) as reader:
        partitions = reader.find_partitions(options.topics, strict=True)
        refuse_if_all_unread(reader, partitions)


def refuse_if_all_unread(reader: RecordReader, partitions: Sequence[TopicPartition]) -> None:
    """Raise OptionError if the partitions have records, and none of them is read."""
    unread = reader.unread(partitions)
    if unread and reader.earliest(partitions) == reader.latest(partitions):
        raise OptionError(f"nothing can be read: {unread}")


def unread(options: SourceOptions) -> str:
    """Return what `RecordReader.unread` says of the selected topics."""
    if options["path"] is None:
        return ""
    with contextlib.closing(open_reader(options)) as reader:
        return reader.unread(reader.find_partitions(options.topics, strict=False))
