"""The third step of writing exactly once: batches from the shelves to their partitions. Knows no
Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from kqueue.client import Client, TopicPartition
from kqueue.client.errors import ClientError
from kqueue.records.batch import BatchHeader, check_crc, iter_batches, set_producer, stamp
from kqueue.spark.errors import StagingLost
from kqueue.spark.sink.batcher import ReadyBatch
from kqueue.spark.sink.journal import DecidedBatch, Journal, StagedBatch, bounds
from kqueue.spark.sink.producer_pipeline import ProducerPipeline, after

FETCH_BYTES = 8 * 1024 * 1024
STAGING_FETCH_BYTES = 4 * 1024 * 1024
HELD_BYTES_MAX = 64 * 1024 * 1024
ALL_IN_SYNC = -1
NO_EPOCH = -1
LEAVE = "the rows that were not copied yet can't be had from there: read them again, under a new checkpoint"


# --- how far it was copied


def copied_counts(client: Client, decided: DecidedBatch) -> dict[TopicPartition, int]:
    """How many of the records that were decided each partition has already."""
    return {
        part.topic_partition: _copied(client, decided, part.topic_partition, part.since, part.sequence, part.rows)
        for part in decided.parts
    }


def _copied(
    client: Client, decided: DecidedBatch, topic_partition: TopicPartition, since: int, sequence: int, total: int
) -> int:
    found = 0
    begin, end = bounds(client, topic_partition)
    at = max(since, begin)
    while at < end and found < total:
        records = client.fetch({topic_partition: at}, partition_max_bytes=FETCH_BYTES, max_bytes=FETCH_BYTES)[
            topic_partition
        ].records
        begin = at
        for _, header in iter_batches(records):
            at = header.next_offset
            if (header.producer_id, header.producer_epoch) == decided.producer:
                ahead = (after(header.last_sequence, 1) - sequence) & 0x7FFFFFFF
                found = max(found, ahead if ahead <= total else 0)
        if at == begin:
            break
    return found


# --- copying


class _Wanted(NamedTuple):
    """A batch to be copied. `before`: bytes that go to the same partition before it."""

    before: int
    staged: StagedBatch
    sequence: int


def copy(journal: Journal, decided: DecidedBatch, copied: Mapping[TopicPartition, int]) -> None:
    """Send what was decided from the shelves to its partitions, but for the first so many records
    of each. Raises: as `commit`.
    """
    wanted: list[_Wanted] = []
    for part in decided.parts:
        ahead = before = 0
        for one in part.batches:
            if ahead >= copied.get(part.topic_partition, 0):
                wanted.append(_Wanted(before, one, after(part.sequence, ahead)))
            ahead += one.rows
            before += one.size
    # all partitions get theirs at the same time, whichever shelves they lie on; each in its order
    wanted.sort(key=lambda one: (one.before, one.staged.topic_partition))
    for _ in ProducerPipeline(journal.client, ALL_IN_SYNC).send(_from_shelves(journal, decided, wanted)):
        pass


def _from_shelves(journal: Journal, decided: DecidedBatch, wanted: list[_Wanted]) -> Iterator[ReadyBatch]:
    shelves = StagedBatchReader(journal, {(one.staged.shelf, one.staged.offset) for one in wanted})
    for _, one, sequence in wanted:
        batch, header = shelves.take(one.shelf, one.offset)
        if (header.size, header.record_count) != (one.size, one.rows):
            what = f"expected {one.size} bytes and {one.rows} records, found {header.size} and {header.record_count}"
            raise StagingLost(f"{journal.topic}-{one.shelf} at {one.offset}: {what}; {LEAVE}")
        check_crc(batch, 0, header)
        stamp(batch, 0, 0, NO_EPOCH)  # as a producer sends it
        set_producer(batch, 0, decided.producer.id, decided.producer.epoch, sequence)
        yield ReadyBatch(one.topic_partition, batch, one.rows)


class StagedBatchReader:
    """Reads staged batches in about the order in which they lie, each once; what comes along and is
    wanted later is held.

    Args: wanted: shelf and offset of all that will be taken.
    """

    def __init__(self, journal: Journal, wanted: set[tuple[int, int]]) -> None:
        self._journal = journal
        self._wanted = wanted
        self._held: dict[tuple[int, int], tuple[bytearray, BatchHeader]] = {}
        self._held_bytes = 0

    def take(self, shelf: int, offset: int) -> tuple[bytearray, BatchHeader]:
        """The batch that begins there. Raises StagingLost: none does. ClientError."""
        if (shelf, offset) not in self._held:
            self._fetch(shelf, offset)
        found = self._held.pop((shelf, offset), None)
        if found is None:
            raise StagingLost(
                f"{self._journal.topic}-{shelf}: no batch begins at {offset}, where one was staged; {LEAVE}"
            )
        self._wanted.discard((shelf, offset))
        self._held_bytes -= found[1].size
        return found

    def _fetch(self, shelf: int, offset: int) -> None:
        topic_partition = TopicPartition(self._journal.topic, shelf)
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
            key = shelf, header.base_offset
            if key in self._wanted and key not in self._held:
                self._held[key] = bytearray(records[position : position + header.size]), header
                self._held_bytes += header.size
