"""Reads the segments of a tier directly, without a broker."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

from kqueue.base.clock import SystemClock, monotonic_s
from kqueue.base.errors import CorruptBatch, CorruptData, StorageFailed
from kqueue.base.names import INTERNAL_TOPICS, parse_uuid, uuid_text
from kqueue.base.settings import MiB
from kqueue.client.topic_partition import TopicPartition
from kqueue.records.arrow.contract import ColumnChunk, RecordRange
from kqueue.records.arrow.decoder import ColumnDecoder
from kqueue.spark.errors import OptionError
from kqueue.spark.offsets import Offsets
from kqueue.spark.source.options import API_TIMEOUT, SourceOptions, TopicSelection
from kqueue.spark.source.record_reader import DataLossHandler, missing_topic, recreated_topic_text
from kqueue.spark.source.split_planner import OffsetRange
from kqueue.tier.catalog import TieredTopic, topic_names, topics_named
from kqueue.tier.chunks import ChunkCache
from kqueue.tier.errors import ObjectNotFound
from kqueue.tier.formats.keys import TieredPartition
from kqueue.tier.manifest import Manifest
from kqueue.tier.reader import TierRead, TierReader
from kqueue.tier.stores.address import open_store
from kqueue.tier.stores.contract import TierStore
from kqueue.tier.stores.retries import RetryingStore, RetryPolicy

ROW_BYTES_GUESS = 1_000
ATTEMPTS = 10
CHUNK_BYTES = 4 * MiB
"""One request, which takes some ten milliseconds in any store, and the bytes of one read."""
READ_BYTES_MIN = 64 * 1024
THREADS = 8
"""Requests at a time: of manifests while a query is planned, of chunks ahead while one is read."""
LOOK_AGE_S = 5.0
"""A stream without new records looks many times a second, and each look is a paid request."""
K = TypeVar("K")
V = TypeVar("V")


class RecentValues(Generic[K, V]):
    """Values that are loaded again when they are older than `LOOK_AGE_S`.

    Thread: any; several threads may load one value.
    """

    def __init__(self, load: Callable[[K], V], clock: Callable[[], float]) -> None:
        self._load = load
        self._clock = clock
        self._values: dict[K, tuple[float, V]] = {}

    def get(self, key: K) -> V:
        """Return a value. Raises: what `load` raises."""
        known = self._values.get(key)
        return known[1] if known is not None and self._clock() - known[0] < LOOK_AGE_S else self.load(key)

    def load(self, key: K) -> V:
        """Return a value, loaded now. Raises: what `load` raises."""
        begun_s = self._clock()
        value = self._load(key)
        self._values[key] = begun_s, value
        return value


class TierRecordReader:
    """A `RecordReader` of a tier; with brokers beside it a part of `CombinedReader`.

    The log of a partition begins where its manifest says, and ends with its last segment; with
    read_committed before the first transaction that is open there.

    Raises: OptionError. TierError. CorruptBatch: a batch in the tier is damaged.
    """

    client = None

    def __init__(
        self, options: SourceOptions, store: TierStore | None = None, *, clock: Callable[[], float] = monotonic_s
    ) -> None:
        """Args: store: of the options' tier; None: it is opened."""
        self.store = store or _open_store(options)
        self._is_committed = options.isolation == "read_committed"
        self._pool = ThreadPoolExecutor(THREADS, "kqueue-tier")
        chunks = ChunkCache(self.store, chunk_bytes=CHUNK_BYTES, run_later=self._pool.submit)
        self._reader = TierReader(self.store, chunks)
        self._opened: dict[TieredPartition, Manifest] = {}
        self._manifests = RecentValues(self._read_manifest, clock)
        self._names = RecentValues(topic_names, clock)
        self._topics = RecentValues(self._find_topic, clock)

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        self.store.close()  # ends the waits before further attempts
        self._pool.shutdown()

    # --- topics

    def find_partitions(self, topics: TopicSelection, *, strict: bool) -> list[TopicPartition]:
        if topics.assigned is not None:
            names = list(dict.fromkeys(topic_partition.topic for topic_partition in topics.assigned))
        elif topics.names is not None:
            names = list(topics.names)
        else:
            names = [name for name in self._all_names() if topics.matches(name) and name not in INTERNAL_TOPICS]
        known = self._known(names)
        if strict and (topics.names is not None or topics.assigned is not None):
            for name in names:
                if name not in known:
                    raise OptionError(missing_topic(name, self._all_names(), f"in {self.store.location}"))
        there = {TopicPartition(name, number) for name in known for number in _numbers(known[name])}
        if topics.assigned is None:
            return sorted(there)
        for topic_partition in topics.assigned:
            if strict and topic_partition not in there:
                raise OptionError(f"assign: {self.store.location} has no partition {topic_partition}")
        return sorted(there & set(topics.assigned))

    def _all_names(self) -> list[str]:
        return self._names.get(self.store)

    def _find_topic(self, name: str) -> TieredTopic | None:
        return next((topic for topic in topics_named(self.store, name) if not topic.is_deleted), None)

    def _known(self, names: Iterable[str]) -> dict[str, TieredTopic]:
        """Return the topics of these names that exist."""
        names = list(dict.fromkeys(names))
        found = zip(names, self._pool.map(self._topics.get, names), strict=True)
        return {name: topic for name, topic in found if topic is not None}

    def topic_ids(self, topics: Iterable[str]) -> dict[str, str]:
        return {name: uuid_text(topic.topic_id) for name, topic in self._known(topics).items()}

    def _tiered(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, TieredPartition]:
        partitions = list(partitions)
        known = self._known(topic_partition.topic for topic_partition in partitions)
        return {
            one: known[one.topic].partition(one.partition)
            for one in partitions
            if one.topic in known and one.partition in _numbers(known[one.topic])
        }

    # --- offsets

    def manifests(self, partitions: Iterable[TieredPartition]) -> dict[TieredPartition, Manifest]:
        """Return the manifests, as they were at most `LOOK_AGE_S` ago."""
        partitions = list(dict.fromkeys(partitions))
        return dict(zip(partitions, self._pool.map(self._manifests.get, partitions), strict=True))

    def _read_manifest(self, partition: TieredPartition) -> Manifest:
        manifest = self._opened.setdefault(partition, Manifest(self.store, partition))
        manifest.refresh()
        return manifest

    def end_of(self, manifest: Manifest) -> int:
        """Return where readers stop, exclusive; with read_committed the last stable offset."""
        end = manifest.end_offset
        if not self._is_committed:
            return end
        newest = manifest.latest()
        while newest is not None and newest.is_cut:  # which transactions are open at its end is not known
            end = newest.start_offset
            newest = manifest.find(end - 1) if end > manifest.start_offset else None
        return end if newest is None else min(end, newest.unstable_offset)

    def _of(self, partitions: Iterable[TopicPartition]) -> Iterator[tuple[TopicPartition, Manifest]]:
        tiered = self._tiered(partitions)
        manifests = self.manifests(tiered.values())
        for topic_partition, partition in tiered.items():
            yield topic_partition, manifests[partition]

    def earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        return {
            topic_partition: min(manifest.start_offset, self.end_of(manifest))
            for topic_partition, manifest in self._of(partitions)
        }

    def latest(
        self, partitions: Iterable[TopicPartition], since: Mapping[TopicPartition, int] | None = None
    ) -> Offsets:
        """As the contract says; never below `since`, as the tier lags behind the brokers from which
        a stream may have read before.
        """
        return {
            topic_partition: max(self.end_of(manifest), (since or {}).get(topic_partition, 0))
            for topic_partition, manifest in self._of(partitions)
        }

    def offsets_for_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        return {
            topic_partition: self.offset_for_time(manifest, times[topic_partition])
            for topic_partition, manifest in self._of(times)
        }

    def offset_for_time(self, manifest: Manifest, time: int) -> int | None:
        """Return the first offset at or after a timestamp (ms); None: the tier has none."""
        found = self._reader.offset_for_time(manifest, time, manifest.start_offset, self.end_of(manifest))
        return None if found is None else found.offset

    def unread(self, partitions: Iterable[TopicPartition]) -> str:
        return ""

    def row_bytes(self, topic_partition: TopicPartition, offset: int) -> float:
        return next((row_bytes(manifest, offset) for _, manifest in self._of([topic_partition])), ROW_BYTES_GUESS)

    # --- reading

    def divide(self, ranges: Iterable[OffsetRange], piece_bytes: int) -> list[OffsetRange]:
        ranges = list(ranges)
        tiered = self._tiered(one.topic_partition for one in ranges)
        return [
            piece
            for one in ranges
            for piece in (
                self.cut(one, self._manifests.get(tiered[one.topic_partition]), piece_bytes)
                if one.topic_partition in tiered
                else [one]
            )
        ]

    def cut(self, one: OffsetRange, manifest: Manifest, piece_bytes: int) -> list[OffsetRange]:
        """Return a range in pieces of whole segments, of at least `piece_bytes` but the last."""
        pieces, start, size = [], one.start, 0
        for segment in manifest.segments(one.start):
            if segment.end_offset >= one.end:
                break
            size += segment.size
            if size >= piece_bytes:
                pieces.append(one._replace(start=start, end=segment.end_offset, is_tiered=True))
                start, size = segment.end_offset, 0
        return [*pieces, one._replace(start=start, is_tiered=True)]

    def read(
        self, ranges: Iterable[OffsetRange], decoder: ColumnDecoder, on_data_loss: DataLossHandler
    ) -> Iterator[ColumnChunk]:
        for one in ranges:
            end = yield from self.read_to_end(one, decoder, on_data_loss)
            if end < one.end:
                topic_id = self._tiered([one.topic_partition]).get(one.topic_partition)
                is_other = topic_id is not None and one.topic_id not in ("", uuid_text(topic_id.topic_id))
                why = recreated_topic_text(one.topic) if is_other else f"{self.store.location} has it up to {end} now"
                on_data_loss(f"{one} was to be read, but {why}")

    def read_to_end(
        self, one: OffsetRange, decoder: ColumnDecoder, on_data_loss: DataLossHandler
    ) -> Generator[ColumnChunk, None, int]:
        """Yield the records of a range as `read`, as far as the tier has it.

        Returns: the offset before which all is read. It is below the end of the range if the tier
            lost its end since the range was planned, or all.
        """
        partition = self._partition_of(one)
        if partition is None:
            return one.start
        decoder.bounds = RecordRange(one.start, one.end)
        decoder.next_offset = None
        offset, attempts, manifest = one.start, 0, self._manifests.get(partition)
        while offset < one.end:
            if offset >= self.end_of(manifest):
                return offset
            if offset < manifest.start_offset:
                start = min(manifest.start_offset, one.end)
                on_data_loss(f"{partition}: offsets {offset} to {start - 1} were deleted before they were read")
                offset, decoder.bounds = start, RecordRange(start, one.end)
                continue
            try:
                read = self._read(manifest, one, offset)
            except ObjectNotFound as error:  # deleted, or replaced by another leader, since the manifest was read
                attempts += 1
                if attempts == ATTEMPTS:
                    raise StorageFailed(
                        f"{self.store.location}: objects of {partition} go away while they are read: {error}"
                    ) from error
                manifest = self._manifests.load(partition)
                continue
            if read.continues_local:
                return offset
            yield from self._decoded(read, manifest, offset, one, decoder)
            offset, attempts = read.next_offset, 0
        return one.end

    def _partition_of(self, one: OffsetRange) -> TieredPartition | None:
        if one.topic_id:
            return TieredPartition(one.topic, parse_uuid(one.topic_id), one.partition)
        return self._tiered([one.topic_partition]).get(one.topic_partition)

    def _read(self, manifest: Manifest, one: OffsetRange, offset: int) -> TierRead:
        """Return the batches from an offset on. Aborted transactions of all of them are known, as
        it ends where none is open.
        """
        last = manifest.find(one.end - 1)
        end = self.end_of(manifest) if last is None else min(self.end_of(manifest), last.end_offset)
        wanted = int((one.end - offset) * row_bytes(manifest, offset) * 1.1) + READ_BYTES_MIN
        with self._named(manifest, offset):
            return self._reader.read(
                manifest, offset, min(wanted, CHUNK_BYTES), end_offset=end, read_committed=self._is_committed
            )

    def _decoded(
        self, read: TierRead, manifest: Manifest, offset: int, one: OffsetRange, decoder: ColumnDecoder
    ) -> Iterator[ColumnChunk]:
        aborted = [(each.producer_id, each.first_offset) for each in read.aborted]
        with self._named(manifest, offset):
            yield from decoder.feed(read.records, aborted=aborted, tag=one.topic_partition)

    @contextlib.contextmanager
    def _named(self, manifest: Manifest, offset: int) -> Iterator[None]:
        """Have errors name the object with `offset`."""
        try:
            yield
        except CorruptData as error:
            segment = manifest.find(offset)
            key = manifest.partition.prefix if segment is None else segment.key(manifest.partition)
            raise CorruptBatch(f"{self.store.location}/{key}: {error}") from None

    def batches(self, topic_partition: TopicPartition, offset: int) -> bytes:
        """Return some batches from an offset on; empty: the tier has none."""
        return next((self.batches_of(manifest, offset) for _, manifest in self._of([topic_partition])), b"")

    def batches_of(self, manifest: Manifest, offset: int) -> bytes:
        """Return as `batches`, of a partition with this manifest."""
        end = self.end_of(manifest)
        if not manifest.start_offset <= offset < end:
            return b""
        return self._reader.read(manifest, offset, READ_BYTES_MIN, end_offset=end).records


def _open_store(options: SourceOptions) -> TierStore:
    assert options.tier is not None
    policy = RetryPolicy(deadline_ms=options[API_TIMEOUT])
    return RetryingStore(open_store(options.tier), policy, clock=SystemClock(), rng=random.Random())


def row_bytes(manifest: Manifest, offset: int) -> float:
    """Return the stored bytes per offset of the segment with `offset`; a guess without one."""
    segment = manifest.find(offset)
    return ROW_BYTES_GUESS if segment is None else segment.size / (segment.end_offset - segment.base_offset)


def _numbers(topic: TieredTopic) -> set[int]:
    """Return the numbers of the partitions that a topic has, also of those without segments."""
    return {*topic.partitions, *range(topic.record.partitions if topic.record is not None else 0)}
