"""Opens the reader that the options select. No pyspark."""

from __future__ import annotations

import contextlib

from kqueue.spark.source.options import SourceOptions
from kqueue.spark.source.record_reader import RecordReader


def open_reader(options: SourceOptions) -> RecordReader:
    """Return the reader that the options select. Raises: as the reader does."""
    if options["path"] is not None:
        from kqueue.spark.source.file_reader import FileReader

        return FileReader(options)
    from kqueue.spark.source.broker_reader import BrokerReader

    return BrokerReader(options)


def check_topics(options: SourceOptions) -> None:
    """Check that the topics exist, before a job makes its folder.

    Raises: OptionError: names the missing one. As the reader does.
    """
    with contextlib.closing(open_reader(options)) as reader:
        reader.find_partitions(options.topics, strict=True)
