"""The contract of record readers, and messages that both implementations share. No pyspark."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Protocol

from kqueue.base import events
from kqueue.base.names import nearest
from kqueue.client import Client, TopicPartition
from kqueue.records.arrow.contract import ColumnChunk
from kqueue.records.arrow.decoder import ColumnDecoder
from kqueue.spark.errors import DataLost
from kqueue.spark.offsets import Offsets
from kqueue.spark.source.options import TopicSelection
from kqueue.spark.source.split_planner import OffsetRange

logger = logging.getLogger("kqueue.spark")
DataLossHandler = Callable[[str], None]
"""Called with a description of lost records.

Raises DataLost, or returns if reading may continue without them.
"""
REPAIR_HINT = "stop its broker, and mend it with: kqueue log repair"
"""Advice for damaged files; a folder follows."""


class RecordReader(Protocol):
    """Reads records from brokers, files or a tier. Not picklable: each process opens its own.

    Thread: one at a time.
    """

    @property
    def client(self) -> Client | None:
        """The connections to brokers; None: it reads without them."""
        ...

    def find_partitions(self, topics: TopicSelection, *, strict: bool) -> list[TopicPartition]:
        """Return the existing partitions of the selection, sorted.

        Args:
            strict: a named topic or partition that does not exist is an error; else it is omitted.
                A pattern may match nothing.
        Raises: OptionError: strict; names the missing topic or partition, and the nearest name.
        """
        ...

    def topic_ids(self, topics: Iterable[str]) -> dict[str, str]:
        """Return topic ids as Kafka prints them, without missing topics and unknown ids.

        Topics that `find_partitions` returned have the ids of that call; others the current ids.
        """
        ...

    def earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Return log start offsets, without missing partitions."""
        ...

    def latest(
        self, partitions: Iterable[TopicPartition], since: Mapping[TopicPartition, int] | None = None
    ) -> Offsets:
        """Return readable log ends, without missing partitions.

        Args:
            since: no transaction that is still open began before these offsets.
        """
        ...

    def offsets_for_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """Return the first offset at or after a timestamp (ms); None: no record is as recent."""
        ...

    def unread(self, partitions: Iterable[TopicPartition]) -> str:
        """Return a sentence on offsets that exist and are not read, and what to do; "": none.

        These are the last segments of a folder whose broker may be running.
        """
        ...

    def row_bytes(self, topic_partition: TopicPartition, offset: int) -> float:
        """Return an estimate of the stored bytes per offset, from this offset on."""
        ...

    def divide(self, ranges: Iterable[OffsetRange], piece_bytes: int) -> list[OffsetRange]:
        """Return the same offsets in ranges that are each read from one place.

        Args: piece_bytes: of a tier the ranges have so many bytes at least, in whole segments;
            brokers and files can't be divided without a look at their batches.
        """
        ...

    def read(
        self, ranges: Iterable[OffsetRange], decoder: ColumnDecoder, on_data_loss: DataLossHandler
    ) -> Iterator[ColumnChunk]:
        """Feed the records of these ranges to the decoder and yield its chunks.

        The tag of a run is (partition, batch header or entry). The caller takes what the decoder
        holds at the end.
        """
        ...

    def close(self) -> None:
        """Release connections and files."""
        ...


def data_loss_handler(fail: bool) -> DataLossHandler:
    """Return the handler for failOnDataLoss: it raises DataLost, or logs a warning."""

    def on_data_loss(what: str) -> None:
        if fail:
            raise DataLost(f"{what}; set failOnDataLoss to false to go on with what is there")
        events.SPARK_RECORDS_MISSING.log(logger, "%s; going on with what is there (failOnDataLoss is false)", what=what)

    return on_data_loss


def missing_topic(name: str, known: Iterable[str], topic_partition: str) -> str:
    """Return the message for a missing topic."""
    near = nearest(name, known)
    return f"there is no topic {name!r} {topic_partition}{f'; did you mean {near!r}?' if near else ''}"


def recreated_topic_text(topic: str) -> str:
    """Return the message for a topic that was deleted and recreated under its name."""
    return f"topic {topic!r} was deleted and recreated"
