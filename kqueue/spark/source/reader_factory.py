"""Opens the reader that the options select. No pyspark."""

from __future__ import annotations

from kqueue.spark.source.options import SourceOptions
from kqueue.spark.source.record_reader import RecordReader


def open_reader(options: SourceOptions) -> RecordReader:
    """Return the reader that the options select. Raises: as the reader does."""
    if options["path"] is not None:
        from kqueue.spark.source.file_reader import FileReader

        return FileReader(options)
    from kqueue.spark.source.broker_reader import BrokerReader

    return BrokerReader(options)
