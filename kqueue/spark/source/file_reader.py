"""Reads segment files of kqueue or Kafka directly, without a broker."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from pathlib import Path

from kqueue.base.errors import CorruptBatch, OffsetOutOfRange, StorageFailed
from kqueue.base.names import INTERNAL_TOPICS, parse_partition_folder, uuid_text
from kqueue.base.text import counted
from kqueue.client.topic_partition import TopicPartition
from kqueue.log.formats.checkpoints import CLEAN_SHUTDOWN
from kqueue.log.formats.filenames import LOG, TIMEINDEX
from kqueue.log.formats.time_index import ENTRY
from kqueue.log_tools.errors import NotALogFolder
from kqueue.log_tools.folder import LogFolder
from kqueue.log_tools.segments import Batch, Segment
from kqueue.records.arrow.contract import ColumnChunk, RecordRange
from kqueue.records.arrow.decoder import ColumnDecoder
from kqueue.spark.errors import OptionError
from kqueue.spark.offsets import Offsets
from kqueue.spark.source.options import SourceOptions, TopicSelection
from kqueue.spark.source.record_reader import REPAIR_HINT, DataLossHandler, missing_topic, recreated_topic_text
from kqueue.spark.source.segment_chunks import valid_chunks
from kqueue.spark.source.split_planner import OffsetRange
from kqueue.spark.source.transaction_index import AbortedTransactions, LastStableOffset, aborted_transactions
from kqueue.storage import LocalStorage

ROW_BYTES_GUESS = 1_000
ATTEMPTS = 10


class FileReader:
    """A `RecordReader` of a data folder or a partition folder.

    It reads sealed segments. The active segment is read only after a clean stop or with
    `includeActiveSegment`, since a running broker may still lose its end and assign those offsets
    again.

    Raises: OptionError: the folder does not exist or has no logs. StorageFailed. CorruptBatch:
        names file and position.
    """

    client = None

    def __init__(self, options: SourceOptions) -> None:
        path = Path(options["path"])
        if not path.is_dir():
            raise OptionError(
                f"path: {path} is {'a file, expected a folder' if path.exists() else 'no folder that is there'}"
            )
        self._only = parse_partition_folder(path.name) if any(path.glob(f"*{LOG}")) else None
        self.storage = LocalStorage(path.parent if self._only else path)
        self._isolation = options.isolation
        self._active = options["includeActiveSegment"]
        self._stable: dict[TopicPartition, LastStableOffset] = {}

    def close(self) -> None:
        pass

    def find_partitions(self, topics: TopicSelection, *, strict: bool) -> list[TopicPartition]:
        there = self._there()
        names = {topic_partition.topic for topic_partition in there}
        if topics.names is not None:
            for name in topics.names:
                if strict and name not in names:
                    raise OptionError(missing_topic(name, names, f"in {self.storage.location}"))
            return sorted(topic_partition for topic_partition in there if topic_partition.topic in topics.names)
        if topics.assigned is not None:
            for topic_partition in topics.assigned:
                if strict and topic_partition not in there:
                    raise OptionError(f"assign: {self.storage.location} has no folder {topic_partition}")
            return sorted(there & set(topics.assigned))
        if strict and not there:
            raise OptionError(f"path: {self.storage.location} has no folders of partitions, such as orders-0")
        return sorted(
            topic_partition
            for topic_partition in there
            if topics.matches(topic_partition.topic) and topic_partition.topic not in INTERNAL_TOPICS
        )

    def _there(self) -> set[TopicPartition]:
        if self._only is not None:
            return {TopicPartition(*self._only)}
        named = (parse_partition_folder(entry.name) for entry in self.storage.list("") if entry.is_folder)
        return {TopicPartition(*one) for one in named if one is not None}

    def _log(self, topic_partition: TopicPartition) -> LogFolder | None:
        """Return the log; None: it does not exist or is empty. Raises: StorageFailed."""
        try:
            return LogFolder(self.storage, f"{topic_partition.topic}-{topic_partition.partition}")
        except (NotALogFolder, FileNotFoundError):
            return None

    def _logs(self, partitions: Iterable[TopicPartition]) -> Iterator[tuple[TopicPartition, LogFolder]]:
        for topic_partition in partitions:
            log = self._log(topic_partition)
            if log is not None:
                yield topic_partition, log

    def topic_ids(self, topics: Iterable[str]) -> dict[str, str]:
        wanted, topic_ids = set(topics), dict[str, str]()
        for topic_partition in sorted(
            topic_partition for topic_partition in self._there() if topic_partition.topic in wanted
        ):
            if (
                topic_partition.topic not in topic_ids
                and (log := self._log(topic_partition)) is not None
                and (topic_id := log.topic_id) is not None
            ):
                topic_ids[topic_partition.topic] = uuid_text(topic_id)
        return topic_ids

    def earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        return {
            topic_partition: min(log.start_offset, self._end(log)) for topic_partition, log in self._logs(partitions)
        }

    def latest(
        self, partitions: Iterable[TopicPartition], since: Mapping[TopicPartition, int] | None = None
    ) -> Offsets:
        return {
            topic_partition: self._stable_end(topic_partition, log, (since or {}).get(topic_partition))
            for topic_partition, log in self._logs(partitions)
        }

    def _end(self, log: LogFolder) -> int:
        is_active = self._active == "true" or (self._active == "auto" and self.storage.exists(CLEAN_SHUTDOWN))
        return log.end_offset if is_active else log.segments[-1].base_offset

    def _stable_end(self, topic_partition: TopicPartition, log: LogFolder, since: int | None) -> int:
        end = self._end(log)
        return (
            end
            if self._isolation != "read_committed"
            else self._stable.setdefault(topic_partition, LastStableOffset()).find(log, end, since)
        )

    def offsets_for_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        return {
            topic_partition: _offset_at(log, times[topic_partition], self._end(log))
            for topic_partition, log in self._logs(times)
        }

    def unread(self, partitions: Iterable[TopicPartition]) -> str:
        if self._active != "auto":
            return ""
        count = sum(log.end_offset - self._end(log) for _, log in self._logs(partitions))
        if not count:
            return ""
        return (
            f"{self.storage.location} is in use, or was not stopped cleanly: {counted(count, 'offset')} in the last "
            "segments of its partitions, whose end may still be lost, are not read; stop its broker first, read from "
            "the broker, or set the option includeActiveSegment"
        )

    def row_bytes(self, topic_partition: TopicPartition, offset: int) -> float:
        log = self._log(topic_partition)
        if log is None:
            return ROW_BYTES_GUESS
        rows = log.end_offset - log.segments[0].base_offset
        return sum(segment.size for segment in log.segments) / rows if rows else ROW_BYTES_GUESS

    def divide(self, ranges: Iterable[OffsetRange], piece_bytes: int) -> list[OffsetRange]:
        return list(ranges)

    def read(
        self, ranges: Iterable[OffsetRange], decoder: ColumnDecoder, on_data_loss: DataLossHandler
    ) -> Iterator[ColumnChunk]:
        for one in ranges:
            decoder.bounds = RecordRange(one.start, one.end)
            try:
                yield from self._range(one, decoder, on_data_loss)
            except CorruptBatch as error:
                raise CorruptBatch(
                    f"{error}; {REPAIR_HINT} {self.storage.location}/{one.topic_partition} --copy-to FOLDER"
                ) from None

    def _range(self, one: OffsetRange, decoder: ColumnDecoder, on_data_loss: DataLossHandler) -> Iterator[ColumnChunk]:
        start = yield from self._in_chunks(one, decoder)
        for batch in self._batches(one._replace(start=start), on_data_loss):
            try:
                yield from decoder.add(batch.data(), batch.unit, tag=(one.topic_partition, batch.unit))
            except CorruptBatch as error:
                raise CorruptBatch(f"{batch.where}: {error}") from None

    def _in_chunks(self, one: OffsetRange, decoder: ColumnDecoder) -> Generator[ColumnChunk, None, int]:
        """Read large chunks while all is valid; return where to continue batch by batch."""
        start, log = one.start, self._log(one.topic_partition)
        if log is None or log.start_offset > start or not _is_same(one, log):
            return start
        decoder.next_offset = None
        try:
            aborted = self._aborted(log, start, one.end)
            for chunk in valid_chunks(log, start, one.end):
                yield from decoder.feed(
                    chunk.data, aborted=aborted.between(start, chunk.next_offset), tag=one.topic_partition
                )
                start = chunk.next_offset
        except (CorruptBatch, FileNotFoundError, OffsetOutOfRange):
            start = start if decoder.next_offset is None else max(start, decoder.next_offset)
        return start

    def _has_changed(self, log: LogFolder) -> bool:
        """Return whether segments other than the active one changed since the folder was listed."""
        try:
            now = LogFolder(self.storage, log.folder)
        except (NotALogFolder, StorageFailed, FileNotFoundError):
            return True
        there = {(segment.base_offset, segment.size) for segment in now.segments}
        return any((segment.base_offset, segment.size) not in there for segment in log.segments[:-1])

    def _aborted(self, log: LogFolder, start: int, end: int) -> AbortedTransactions:
        return aborted_transactions(log, start, end) if self._isolation == "read_committed" else AbortedTransactions(())

    def _batches(self, one: OffsetRange, on_data_loss: DataLossHandler) -> Iterator[Batch]:
        """Yield the data batches of a range, without control and aborted batches.

        Continues while a broker deletes or compacts segments.
        """
        start, attempts = one.start, 0
        while start < one.end:
            log = self._log(one.topic_partition)
            if log is None:
                return on_data_loss(f"{one} was to be read, but its folder is gone")
            if not _is_same(one, log):
                return on_data_loss(f"{one} was to be read, but {recreated_topic_text(one.topic)}")
            if log.start_offset > start:
                on_data_loss(
                    f"{one.topic_partition}: offsets {start} to {min(log.start_offset, one.end) - 1} were "
                    "deleted before they were read"
                )
                start = log.start_offset
            try:
                aborted = self._aborted(log, start, one.end)
                for batch in _borne_out(log, start, one.end):
                    if not batch.is_control and not aborted.has(batch):
                        yield batch
                    start, attempts = batch.next_offset, 0
                return None
            except OffsetOutOfRange:  # the log's start has moved meanwhile
                continue
            except FileNotFoundError as error:  # deleted or compacted since it was listed
                attempts += 1
                if attempts == ATTEMPTS:
                    raise StorageFailed(f"{log.location}: its files go away while they are read: {error}") from error
            except CorruptBatch:  # it is none where another file has got the name of the one that was listed
                attempts += 1
                if attempts == ATTEMPTS or not self._has_changed(log):
                    raise
        return None


def _borne_out(log: LogFolder, start: int, end: int) -> Iterator[Batch]:
    """Yield each batch once the next one confirms its offsets, which no checksum covers."""
    before: Batch | None = None
    for batch in log.batches(start_offset=start):
        if before is not None:
            if before.base_offset >= end and (before.magic == 2 or not before.unit.codec_id):
                return
            yield before
        before = batch
    if before is not None:
        yield before


def _is_same(one: OffsetRange, log: LogFolder) -> bool:
    """Return whether the folder's topic id is that of the range, if both are known."""
    topic_id = log.topic_id if one.topic_id else None
    return topic_id is None or uuid_text(topic_id) == one.topic_id


def _offset_at(log: LogFolder, time: int, end: int) -> int | None:
    """Return the first offset below `end` with a timestamp >= `time` (ms).

    Time indexes tell which parts need no scan.
    """
    start = log.start_offset
    for segment in log.segments:
        start = max(start, segment.base_offset)
        after, is_passed = _look(segment, time)
        start = max(start, after)
        if not is_passed:
            break
    if start >= end:
        return None
    for batch in log.batches(start_offset=start, end_offset=end, check=False):
        if batch.is_control or batch.unit.max_timestamp < time:
            continue
        for record in batch.records():
            if record.timestamp >= time and start <= record.offset < end:
                return record.offset
    return None


def _look(segment: Segment, time: int) -> tuple[int, bool]:
    """Return an offset below which all records of a segment are older than `time`.

    Returns: that offset, and whether the whole segment is older.
    """
    try:
        data = segment.storage.read(segment.path(TIMEINDEX))
    except (FileNotFoundError, StorageFailed):
        return segment.base_offset, False
    entries = [one for one in ENTRY.iter_unpack(data[: len(data) // ENTRY.size * ENTRY.size]) if one[0] > 0]
    older = [relative for stamp, relative in entries if stamp < time]
    if not older or sorted(entries) != entries:
        return segment.base_offset, False
    return segment.base_offset + older[-1] + 1, len(older) == len(entries)
