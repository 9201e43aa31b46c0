"""The contract of the two ways to the data, and what passes over them. Knows no Spark."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Protocol

from kqueue.base.names import nearest
from kqueue.client.topic_partition import TopicPartition
from kqueue.records.arrow.contract import ColumnChunk
from kqueue.records.arrow.decoder import ColumnDecoder
from kqueue.spark.errors import DataLost
from kqueue.spark.source.offsets import Offsets
from kqueue.spark.source.options import SourceOptions, TopicSelection
from kqueue.spark.source.split_planner import OffsetRange

logger = logging.getLogger("kqueue.spark")
DataLossHandler = Callable[[str], None]
"""Told of records that are gone: raises DataLost, or returns where reading may go on without them.
"""
MEND = "stop its broker, and mend it with: kqueue log repair"
"""What to do about damage; a folder follows."""


class RecordReader(Protocol):
    """A broker, or a folder. Not picklable: each process opens its own. One thread at a time."""

    def find(self, topics: TopicSelection, *, strict: bool) -> list[TopicPartition]:
        """The partitions that are there now, sorted.

        Args: strict: what was named and is not there is an error; else it is left out. A pattern
        may match none. Raises: OptionError: strict, names a topic or partition, and the nearest
        name.
        """
        ...

    def ids(self, topics: Iterable[str]) -> dict[str, str]:
        """The ids of these topics, as Kafka prints them, and as `find` has just found them; of
        others, as they are now.

        Topics that are not there, and ids that nobody says, are left out.
        """
        ...

    def earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Where their logs begin; those that are not there are left out."""
        ...

    def latest(
        self, partitions: Iterable[TopicPartition], since: Mapping[TopicPartition, int] | None = None
    ) -> Offsets:
        """How far they can be read; those that are not there are left out. `since`: no transaction
        that is still open began before.
        """
        ...

    def at_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """The first offset from a time (ms) on; None: no record is as late."""
        ...

    def row_bytes(self, topic_partition: TopicPartition, offset: int) -> float:
        """About how many bytes an offset takes as it is stored, from this one on."""
        ...

    def read(
        self, ranges: Iterable[OffsetRange], decoder: ColumnDecoder, lost: DataLossHandler
    ) -> Iterator[ColumnChunk]:
        """Feed the records of these ranges to the decoder; a run's tag is (its partition, the
        batch's header or entry).

        What the decoder holds at the end is the caller's to take.
        """
        ...

    def close(self) -> None: ...


def open_reader(options: SourceOptions) -> RecordReader:
    """The way that the options name. Raises: as the way does."""
    if options["path"] is not None:
        from kqueue.spark.source.file_reader import FileReader

        return FileReader(options)
    from kqueue.spark.source.broker_reader import BrokerReader

    return BrokerReader(options)


def data_loss_handler(fail: bool) -> DataLossHandler:
    """What to do about lost records. Args: fail: failOnDataLoss."""

    def lost(what: str) -> None:
        if fail:
            raise DataLost(f"{what}; set failOnDataLoss to false to go on with what is there")
        logger.warning("%s; going on with what is there (failOnDataLoss is false)", what)

    return lost


def missing_topic(name: str, known: Iterable[str], topic_partition: str) -> str:
    """The words for a topic that is not there."""
    near = nearest(name, known)
    return f"there is no topic {name!r} {topic_partition}{f'; did you mean {near!r}?' if near else ''}"


def recreated_topic(topic: str) -> str:
    """The words for a topic whose name another one has got."""
    return f"topic {topic!r} was deleted and made anew"
