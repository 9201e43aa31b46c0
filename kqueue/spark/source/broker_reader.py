"""Reads whole batches from brokers; decodes them in the task."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from kqueue.base.errors import CorruptBatch
from kqueue.base.names import uuid_text
from kqueue.client import EARLIEST, LATEST, Client, ClusterMetadata, FetchedRecords, OffsetAndTimestamp, TopicPartition
from kqueue.client.deadline import Deadline
from kqueue.client.errors import BadAnswer, BrokerRefused, ClientError, FetchOutOfRange
from kqueue.client.metadata import NO_ID
from kqueue.records.any_format import iter_any_batches
from kqueue.records.arrow.contract import ColumnChunk, RecordRange
from kqueue.records.arrow.decoder import ColumnDecoder
from kqueue.records.batch import BatchHeader
from kqueue.spark.errors import OptionError
from kqueue.spark.offsets import Offsets
from kqueue.spark.source.options import SourceOptions, TopicSelection
from kqueue.spark.source.record_reader import REPAIR_HINT, DataLossHandler, missing_topic, recreated_topic_text
from kqueue.spark.source.split_planner import OffsetRange
from kqueue.wire.error_codes import ErrorCode

P = ParamSpec("P")
T = TypeVar("T")
FETCH_BYTES_MIN = 64 * 1024
ROW_BYTES_GUESS = 1_000
MISSING = {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID}


class BrokerReader:
    """A `RecordReader` of a cluster.

    Raises: ClientError: the brokers are unreachable for `kafka.default.api.timeout.ms`, or refuse a
        request.
    """

    def __init__(self, options: SourceOptions) -> None:
        self.client = Client(options.client)
        self._isolation = options.isolation
        self._fetch_bytes: int = options["kafka.max.partition.fetch.bytes"]

    def close(self) -> None:
        self.client.close()

    def find_partitions(self, topics: TopicSelection, *, strict: bool) -> list[TopicPartition]:
        if topics.names is None and topics.assigned is None:
            return sorted(
                topic_partition
                for topic in self.client.metadata().topics.values()
                if topics.matches(topic.name) and not topic.is_internal
                for topic_partition in topic.topic_partitions
            )
        wanted = topics.names or tuple(
            dict.fromkeys(topic_partition.topic for topic_partition in topics.assigned or ())
        )
        metadata = self._metadata(wanted)
        if strict:
            for name in wanted:
                if name not in metadata.topics:
                    raise OptionError(missing_topic(name, metadata.topics, f"on {self.client.options.bootstrap}"))
        there = {
            topic_partition
            for name in wanted
            if name in metadata.topics
            for topic_partition in metadata.topics[name].topic_partitions
        }
        if topics.assigned is None:
            return sorted(there)
        for topic_partition in topics.assigned:
            if strict and topic_partition not in there:
                raise OptionError(
                    f"assign: topic {topic_partition.topic!r} has no partition {topic_partition.partition}"
                )
        return sorted(there & set(topics.assigned))

    def _metadata(self, names: Iterable[str]) -> ClusterMetadata:
        """Return metadata of these topics; of all topics if one of them does not exist."""
        try:
            return self.client.metadata(names)
        except BrokerRefused as error:
            if error.code not in MISSING:
                raise
            return self.client.metadata()

    def topic_ids(self, topics: Iterable[str]) -> dict[str, str]:
        wanted = list(topics)
        unknown = [name for name in wanted if self.client.topic_id(name) == NO_ID]
        if unknown:
            self._metadata(unknown)
        return {name: uuid_text(topic_id) for name in wanted if (topic_id := self.client.topic_id(name)) != NO_ID}

    def earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        return self._known(dict.fromkeys(partitions, EARLIEST))

    def latest(
        self, partitions: Iterable[TopicPartition], since: Mapping[TopicPartition, int] | None = None
    ) -> Offsets:
        return self._known(dict.fromkeys(partitions, LATEST))

    def offsets_for_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        return {topic_partition: position.offset for topic_partition, position in self._offsets(times).items()}

    def _known(self, asked: Mapping[TopicPartition, int]) -> Offsets:
        return {
            topic_partition: position.offset
            for topic_partition, position in self._offsets(asked).items()
            if position.offset is not None
        }

    def _offsets(self, asked: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, OffsetAndTimestamp]:
        if not asked:
            return {}
        try:
            return self.client.offsets(asked, isolation=self._isolation)
        except ClientError as error:
            for failed in error.failed.values():
                if not is_missing(failed):
                    raise failed from None
            return error.done

    def unread(self, partitions: Iterable[TopicPartition]) -> str:
        return ""

    def row_bytes(self, topic_partition: TopicPartition, offset: int) -> float:
        """Return the average of the first batches, or a guess if there are none."""
        try:
            sample = self.client.fetch({topic_partition: offset}, partition_max_bytes=FETCH_BYTES_MIN, max_wait_ms=1)[
                topic_partition
            ]
        except BrokerRefused:
            return ROW_BYTES_GUESS
        after = sample.next_offset
        return ROW_BYTES_GUESS if after is None or after <= offset else len(sample.records) / (after - offset)

    def batches(self, topic_partition: TopicPartition, offset: int) -> memoryview:
        """Return some batches from an offset on; empty: there are none."""
        return self.client.fetch(
            {topic_partition: offset}, max_bytes=FETCH_BYTES_MIN, partition_max_bytes=FETCH_BYTES_MIN, max_wait_ms=1
        )[topic_partition].records

    def divide(self, ranges: Iterable[OffsetRange], piece_bytes: int) -> list[OffsetRange]:
        return list(ranges)

    def read(
        self, ranges: Iterable[OffsetRange], decoder: ColumnDecoder, on_data_loss: DataLossHandler
    ) -> Iterator[ColumnChunk]:
        with _Helper() as helper:
            for one in ranges:
                decoder.bounds = RecordRange(one.start, one.end)
                try:
                    for fetched in self._fetches(one, on_data_loss, helper):
                        yield from decoder.feed(fetched.records, aborted=fetched.aborted, tag=one.topic_partition)
                except CorruptBatch as error:
                    sent = f"{one.topic_partition}, as {self.client.options.bootstrap} sent it"
                    raise CorruptBatch(
                        f"{sent}: {error}; {REPAIR_HINT} {one.topic_partition} --copy-to FOLDER, in its data folder"
                    ) from None

    def _fetches(self, one: OffsetRange, on_data_loss: DataLossHandler, helper: _Helper) -> Iterator[FetchedRecords]:
        """Yield the responses of a range; the next fetch runs while one is decoded."""
        offset, row_bytes, deadline = one.start, float(ROW_BYTES_GUESS), Deadline(self.client.options.timeout_ms)
        coming = helper.run(self._fetch, one, offset, row_bytes)
        while True:
            try:
                fetched = coming.result()
            except FetchOutOfRange as error:
                offset = self._after_loss(one, offset, on_data_loss, error)
                if offset >= one.end:
                    return None
                coming = helper.run(self._fetch, one, offset, row_bytes)
                continue
            except BrokerRefused as error:
                if error.code == ErrorCode.CORRUPT_MESSAGE:
                    raise CorruptBatch(f"the batch at offset {offset} or near it is damaged ({error})") from None
                if not is_missing(error):
                    raise
                return on_data_loss(f"{one} was to be read, but there is no such partition any more")
            if not self._is_same(one):
                return on_data_loss(f"{one} was to be read, but {recreated_topic_text(one.topic)}")
            after = _after(fetched)
            if after is None:
                if self._is_empty_to(one, fetched, deadline):
                    return None
            elif after <= offset:
                raise BadAnswer(
                    f"{self.client.options.bootstrap}: Fetch of {one.topic_partition} from {offset} on: the "
                    f"answer ends at {after}"
                )
            else:
                row_bytes = len(fetched.records) / (after - offset)
                offset, deadline = after, Deadline(self.client.options.timeout_ms)
            if offset < one.end:
                coming = helper.run(self._fetch, one, offset, row_bytes)
            if after is not None:
                yield fetched
            if offset >= one.end:
                return None

    def _is_same(self, one: OffsetRange) -> bool:
        """Return whether the fetched topic's id is that of the range, if both are known."""
        topic_id = self.client.topic_id(one.topic) if one.topic_id else NO_ID
        return topic_id == NO_ID or uuid_text(topic_id) == one.topic_id

    def _fetch(self, one: OffsetRange, offset: int, row_bytes: float) -> FetchedRecords:
        wanted = int((one.end - offset) * row_bytes * 1.1) + FETCH_BYTES_MIN
        size = min(wanted, self._fetch_bytes)
        return self.client.fetch(
            {one.topic_partition: offset}, max_bytes=size, partition_max_bytes=size, isolation=self._isolation
        )[one.topic_partition]

    def _is_empty_to(self, one: OffsetRange, fetched: FetchedRecords, deadline: Deadline) -> bool:
        """Return whether an empty response means that the range has no further records.

        Raises: BadAnswer: the range must have records, and they did not arrive in time.
        """
        reached = fetched.last_stable_offset if self._isolation == "read_committed" else fetched.high_watermark
        if not len(fetched.records) and reached >= one.end:
            return True
        if deadline.is_expired:
            raise BadAnswer(
                f"{self.client.options.bootstrap}: {one} was to be read, but {one.topic_partition} ends at "
                f"{reached} now; "
                "its leader has lost what another had"
            )
        return False

    def _after_loss(self, one: OffsetRange, offset: int, on_data_loss: DataLossHandler, error: FetchOutOfRange) -> int:
        """Return where to continue after deleted offsets. Raises: DataLost, or the error itself."""
        begin = self.earliest([one.topic_partition]).get(one.topic_partition, one.end)
        if begin <= offset:
            end = self.latest([one.topic_partition]).get(one.topic_partition, begin)
            if end >= offset:
                raise error
            on_data_loss(f"{one} was to be read, but {one.topic_partition} ends at {end} now")
            return one.end
        on_data_loss(
            f"{one.topic_partition}: offsets {offset} to {min(begin, one.end) - 1} were deleted before they "
            f"were read; its log begins at {begin}"
        )
        return begin


def _after(fetched: FetchedRecords) -> int | None:
    """Return the offset after them, as `FetchedRecords.next_offset`.

    Raises: CorruptBatch: offsets decrease, so one of two batches is wrong; no checksum covers
        offsets.
    """
    next_offset: int | None = None
    for position, unit in iter_any_batches(fetched.records):
        first = unit.base_offset if isinstance(unit, BatchHeader) else unit.last_offset
        if next_offset is not None and first < next_offset:
            raise CorruptBatch(
                f"the batch at position {position} begins at offset {first}, and that before it ends at "
                f"{next_offset - 1}"
            )
        next_offset = unit.next_offset
    return next_offset


class _Helper:
    """A thread that fetches ahead; it ends with the read."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, "kqueue-fetch")

    def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        return self._pool.submit(work, *args, **kwargs)

    def __enter__(self) -> _Helper:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)


def is_missing(error: ClientError) -> bool:
    """Return whether the error says that the topic or partition does not exist."""
    return isinstance(error, BrokerRefused) and error.code in MISSING
