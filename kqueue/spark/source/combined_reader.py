"""Reads the tier as far as it goes, and the brokers from there on: each record once.

The brokers say which topics and partitions there are, and where logs end; the tier says where they
begin. A plan divides each range at the border: the end of the tier as its manifest says then, with
read_committed its last stable offset. So the markers of all transactions below the border are in
the tier, and those above it are read whole from the brokers.

A border is only a decision where to read from. What is copied to the tier afterwards is read from
the brokers, which still have it, or read it from the tier themselves. Where the tier has lost its
end meanwhile, after an unclean election, the rest is the brokers' too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from kqueue.client import Client, TopicPartition
from kqueue.client.metadata import NO_ID
from kqueue.records.arrow.contract import ColumnChunk
from kqueue.records.arrow.decoder import ColumnDecoder
from kqueue.spark.offsets import Offsets
from kqueue.spark.source.broker_reader import BrokerReader
from kqueue.spark.source.options import SourceOptions, TopicSelection
from kqueue.spark.source.record_reader import DataLossHandler
from kqueue.spark.source.split_planner import OffsetRange
from kqueue.spark.source.tier_reader import TierRecordReader, row_bytes
from kqueue.tier.formats.keys import TieredPartition
from kqueue.tier.manifest import Manifest


class CombinedReader:
    """A `RecordReader` of a cluster whose topics are tiered, all or some of them.

    Neither the tier nor the brokers are asked for anything before they are needed, so that a task
    which reads the one needs no way to the other.

    Raises: as `BrokerReader` and `TierRecordReader`.
    """

    def __init__(
        self, options: SourceOptions, brokers: BrokerReader | None = None, tier: TierRecordReader | None = None
    ) -> None:
        """Args: brokers, tier: parts of it; None: they are opened."""
        self._options = options
        self._brokers = brokers or BrokerReader(options)
        self._opened_tier = tier

    @property
    def client(self) -> Client:
        """The connections to the brokers."""
        return self._brokers.client

    @property
    def _tier(self) -> TierRecordReader:
        if self._opened_tier is None:
            self._opened_tier = TierRecordReader(self._options)
        return self._opened_tier

    def close(self) -> None:
        self._brokers.close()
        if self._opened_tier is not None:
            self._opened_tier.close()

    def find_partitions(self, topics: TopicSelection, *, strict: bool) -> list[TopicPartition]:
        return self._brokers.find_partitions(topics, strict=strict)

    def topic_ids(self, topics: Iterable[str]) -> dict[str, str]:
        return self._brokers.topic_ids(topics)

    def _manifests(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Manifest]:
        """Return the manifests of the partitions of which the tier has records."""
        partitions = list(partitions)
        self.topic_ids(dict.fromkeys(one.topic for one in partitions))
        ids = {one: self.client.topic_id(one.topic) for one in partitions}
        tiered = {
            one: TieredPartition(one.topic, topic_id, one.partition)
            for one, topic_id in ids.items()
            if topic_id != NO_ID
        }
        manifests = self._tier.manifests(tiered.values())
        return {
            one: manifest
            for one, partition in tiered.items()
            if (manifest := manifests[partition]).start_offset < self._tier.end_of(manifest)
        }

    def earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        partitions = list(partitions)
        tiered = {one: manifest.start_offset for one, manifest in self._manifests(partitions).items()}
        return tiered | self._brokers.earliest(one for one in partitions if one not in tiered)

    def latest(
        self, partitions: Iterable[TopicPartition], since: Mapping[TopicPartition, int] | None = None
    ) -> Offsets:
        return self._brokers.latest(partitions, since)

    def offsets_for_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        tiered = {
            one: offset
            for one, manifest in self._manifests(times).items()
            if (offset := self._tier.offset_for_time(manifest, times[one])) is not None
        }
        return {**tiered, **self._brokers.offsets_for_times({one: times[one] for one in times if one not in tiered})}

    def unread(self, partitions: Iterable[TopicPartition]) -> str:
        return ""

    def row_bytes(self, topic_partition: TopicPartition, offset: int) -> float:
        manifest = self._manifests([topic_partition]).get(topic_partition)
        if manifest is not None and offset < self._tier.end_of(manifest):
            return row_bytes(manifest, offset)
        return self._brokers.row_bytes(topic_partition, offset)

    def batches(self, topic_partition: TopicPartition, offset: int) -> bytes | memoryview:
        """Return some batches from an offset on; empty: there are none."""
        manifest = self._manifests([topic_partition]).get(topic_partition)
        tiered = b"" if manifest is None else self._tier.batches_of(manifest, offset)
        return tiered or self._brokers.batches(topic_partition, offset)

    def divide(self, ranges: Iterable[OffsetRange], piece_bytes: int) -> list[OffsetRange]:
        ranges = list(ranges)
        manifests = self._manifests(one.topic_partition for one in ranges)
        pieces = []
        for one in ranges:
            manifest = manifests.get(one.topic_partition)
            border = one.start if manifest is None else min(max(self._tier.end_of(manifest), one.start), one.end)
            if manifest is not None and border > one.start:
                pieces += self._tier.cut(one._replace(end=border), manifest, piece_bytes)
            if border < one.end:
                pieces.append(one._replace(start=border))
        return pieces

    def read(
        self, ranges: Iterable[OffsetRange], decoder: ColumnDecoder, on_data_loss: DataLossHandler
    ) -> Iterator[ColumnChunk]:
        for one in ranges:
            start = one.start
            if one.is_tiered:
                start = yield from self._tier.read_to_end(one, decoder, on_data_loss)
            if start < one.end:
                yield from self._brokers.read([one._replace(start=start)], decoder, on_data_loss)
