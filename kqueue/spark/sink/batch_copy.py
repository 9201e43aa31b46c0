"""Step 3 of an exactly-once write: copy staged batches to their partitions. No pyspark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from kqueue.client import Client, TopicPartition
from kqueue.client.errors import ClientError
from kqueue.records.batch import BatchHeader, check_crc, iter_batches, set_producer, stamp
from kqueue.spark.errors import StagingLost
from kqueue.spark.sink.batcher import ReadyBatch
from kqueue.spark.sink.journal import DecidedBatch, Journal, StagedBatch, bounds
from kqueue.spark.sink.producer_pipeline import ProducerPipeline, sequence_after

FETCH_BYTES = 8 * 1024 * 1024
STAGING_FETCH_BYTES = 4 * 1024 * 1024
HELD_BYTES_MAX = 64 * 1024 * 1024
ALL_IN_SYNC = -1
NO_EPOCH = -1
LEAVE = "the rows that were not copied yet can't be had from there: read them again, under a new checkpoint"


# --- how far it was copied


def copied_counts(client: Client, decided: DecidedBatch) -> dict[TopicPartition, int]:
    """Return how many of the decided records each partition already has."""
    return {
        part.topic_partition: _copied(client, decided, part.topic_partition, part.since, part.sequence, part.rows)
        for part in decided.parts
    }


def _copied(
    client: Client, decided: DecidedBatch, topic_partition: TopicPartition, since: int, sequence: int, total: int
) -> int:
    copied = 0
    begin, end = bounds(client, topic_partition)
    at = max(since, begin)
    while at < end and copied < total:
        records = client.fetch({topic_partition: at}, partition_max_bytes=FETCH_BYTES, max_bytes=FETCH_BYTES)[
            topic_partition
        ].records
        begin = at
        for _, header in iter_batches(records):
            at = header.next_offset
            if (header.producer_id, header.producer_epoch) == decided.producer:
                ahead = (sequence_after(header.last_sequence, 1) - sequence) & 0x7FFFFFFF
                copied = max(copied, ahead if ahead <= total else 0)
        if at == begin:
            break
    return copied


# --- copying


class _CopyItem(NamedTuple):
    """A batch to copy. `before`: bytes that precede it in the same target partition."""

    before: int
    staged: StagedBatch
    sequence: int


def copy(journal: Journal, decided: DecidedBatch, copied: Mapping[TopicPartition, int]) -> None:
    """Copy the decided batches, without the first `copied` records of each partition.

    Raises: as `commit`.
    """
    wanted: list[_CopyItem] = []
    for part in decided.parts:
        ahead = before = 0
        for one in part.batches:
            if ahead >= copied.get(part.topic_partition, 0):
                wanted.append(_CopyItem(before, one, sequence_after(part.sequence, ahead)))
            ahead += one.rows
            before += one.size
    # All target partitions progress in parallel; within each the order is kept.
    wanted.sort(key=lambda one: (one.before, one.staged.topic_partition))
    for _ in ProducerPipeline(journal.client, ALL_IN_SYNC).send(_staged_batches(journal, decided, wanted)):
        pass


def _staged_batches(journal: Journal, decided: DecidedBatch, wanted: list[_CopyItem]) -> Iterator[ReadyBatch]:
    staging_partitions = StagedBatchReader(
        journal, {(one.staged.staging_partition, one.staged.offset) for one in wanted}
    )
    for _, one, sequence in wanted:
        batch, header = staging_partitions.take(one.staging_partition, one.offset)
        if (header.size, header.record_count) != (one.size, one.rows):
            what = f"expected {one.size} bytes and {one.rows} records, found {header.size} and {header.record_count}"
            raise StagingLost(f"{journal.topic}-{one.staging_partition} at {one.offset}: {what}; {LEAVE}")
        check_crc(batch, 0, header)
        stamp(batch, 0, 0, NO_EPOCH)  # as a producer sends it
        set_producer(batch, 0, decided.producer.id, decided.producer.epoch, sequence)
        yield ReadyBatch(one.topic_partition, batch, one.rows)


class StagedBatchReader:
    """Reads staged batches once each, roughly in offset order; buffers those needed later.

    Args:
        wanted: staging partition and offset of all batches that will be read.
    """

    def __init__(self, journal: Journal, wanted: set[tuple[int, int]]) -> None:
        self._journal = journal
        self._wanted = wanted
        self._held: dict[tuple[int, int], tuple[bytearray, BatchHeader]] = {}
        self._held_bytes = 0

    def take(self, staging_partition: int, offset: int) -> tuple[bytearray, BatchHeader]:
        """Return the batch that begins at this offset.

        Raises: StagingLost: no batch begins there. ClientError.
        """
        if (staging_partition, offset) not in self._held:
            self._fetch(staging_partition, offset)
        held = self._held.pop((staging_partition, offset), None)
        if held is None:
            raise StagingLost(
                f"{self._journal.topic}-{staging_partition}: no batch begins at {offset}, where one was staged; {LEAVE}"
            )
        self._wanted.discard((staging_partition, offset))
        self._held_bytes -= held[1].size
        return held

    def _fetch(self, staging_partition: int, offset: int) -> None:
        topic_partition = TopicPartition(self._journal.topic, staging_partition)
        size = max(
            min(STAGING_FETCH_BYTES, HELD_BYTES_MAX - self._held_bytes), 1
        )  # the first batch comes whole, whatever its size
        try:
            records = self._journal.client.fetch({topic_partition: offset}, partition_max_bytes=size, max_bytes=size)[
                topic_partition
            ].records
        except ClientError as error:
            if getattr(error, "code_name", "") != "OFFSET_OUT_OF_RANGE":
                raise
            raise StagingLost(
                f"{topic_partition}: what was staged at {offset} is gone, by retention or by hand; {LEAVE}"
            ) from None
        for position, header in iter_batches(records):
            key = staging_partition, header.base_offset
            if key in self._wanted and key not in self._held:
                self._held[key] = bytearray(records[position : position + header.size]), header
                self._held_bytes += header.size
