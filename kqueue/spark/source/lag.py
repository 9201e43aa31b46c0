"""The lag of a stream: records, bytes and seconds that it has not read. No pyspark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kqueue.base.clock import monotonic_s, wall_ms
from kqueue.base.text import counted, size_text
from kqueue.client.topic_partition import TopicPartition
from kqueue.spark.offsets import Offsets
from kqueue.spark.source.first_record import first_time
from kqueue.spark.source.options import parse_options
from kqueue.spark.source.reader_factory import open_reader
from kqueue.spark.source.record_reader import RecordReader

TIMEOUT_MS = 5_000
"""The most that one request may take, and after which no further topic is looked at for times."""
TIMES_MAX = 8
"""Partitions of a topic whose first unread record is looked at: those with most to read."""
BOUNDED = ("kafka.default.api.timeout.ms", "kafka.request.timeout.ms")


@dataclass(frozen=True, slots=True)
class TopicLag:
    """The unread part of one topic.

    records: offsets between the end of the last batch and the readable log end; compaction and
        transactions may have left fewer records in them.
    bytes: an estimate of their size in the log: the average of the first 64 KiB that are not read,
        of the partition with the most to read. 0: nothing is unread.
    seconds: the age of the oldest unread record by its timestamp, 0.0 or more; of topics with more
        than `TIMES_MAX` partitions to read, of those with the most. None: unknown, since the
        record has no timestamp or could not be read in time.
    """

    records: int = 0
    bytes: int = 0
    seconds: float | None = 0.0

    def plus(self, other: TopicLag) -> TopicLag:
        """Return both together: of two sources that read the topic, or of two topics."""
        known = [one.seconds for one in (self, other) if one.seconds is not None]
        unknown = any(one.records and one.seconds is None for one in (self, other))
        seconds = max(known, default=None)
        return TopicLag(
            self.records + other.records, self.bytes + other.bytes, None if unknown and not seconds else seconds
        )


@dataclass(frozen=True, slots=True)
class QueryLag:
    """The lag of one query.

    batch: the last finished batch. taken_ms: when this was measured, in ms since 1970. running:
    False: the query has ended. topics: by name, of all sources that are known.
    """

    query_id: str
    name: str | None
    batch: int
    taken_ms: int
    topics: Mapping[str, TopicLag]
    running: bool = True

    @property
    def total(self) -> TopicLag:
        """All topics together; `seconds` is the greatest that is known."""
        total = TopicLag()
        for one in self.topics.values():
            total = total.plus(one)
        return total

    @property
    def records(self) -> int:
        """Offsets that are not read."""
        return self.total.records

    @property
    def bytes(self) -> int:
        """An estimate of their bytes in the log."""
        return self.total.bytes

    @property
    def seconds(self) -> float | None:
        """The age of the oldest; None: unknown."""
        return self.total.seconds

    def __str__(self) -> str:
        """Return one line."""
        total, name = self.total, self.name or self.query_id
        if not total.records:
            return f"{name}: nothing to read after batch {self.batch}"
        waits = "" if total.seconds is None else f", the oldest {total.seconds:,.1f} s old"
        return (
            f"{name}: {counted(total.records, 'record')} behind after batch {self.batch}, "
            f"about {size_text(total.bytes)}{waits}"
        )


class SourceLag:
    """Measures the lag of the queries that read one source.

    Args:
        source: the options of the source, as the query has them.
    Raises: OptionError.
    Thread: one at a time.
    """

    def __init__(
        self,
        source: Mapping[str, object],
        *,
        now_ms: Callable[[], float] = wall_ms,
        clock: Callable[[], float] = monotonic_s,
    ) -> None:
        given = {name: str(value) for name, value in source.items() if name.lower() not in BOUNDED}
        self.options = parse_options(given | dict.fromkeys(BOUNDED, str(TIMEOUT_MS)), streaming=True)
        self._now_ms = now_ms
        self._clock = clock
        self._open: RecordReader | None = None

    def close(self) -> None:
        """Close the connections. A later measurement opens them again."""
        if self._open is not None:
            self._open.close()
            self._open = None

    @property
    def _reader(self) -> RecordReader:
        if self._open is None:
            self._open = open_reader(self.options)
        return self._open

    def reads(self, ends: Offsets, ids: Mapping[str, str]) -> bool:
        """Return whether offsets are of this source: its options select their topics, and the
        topic ids, where they are known, are the same.
        """
        topics = {one.topic for one in ends}
        chosen = self.options.topics
        if chosen.names is None and chosen.assigned is None:
            is_chosen = all(map(chosen.matches, topics))
        else:
            is_chosen = topics <= {*(chosen.names or ()), *(one.topic for one in chosen.assigned or ())}
        if not topics or not is_chosen:
            return False
        there = self._reader.topic_ids(sorted(topics & ids.keys()))
        return all(there.get(topic, ids[topic]) == ids[topic] for topic in topics & ids.keys())

    def measure(self, ends: Offsets) -> dict[str, TopicLag]:
        """Return what is not read of each topic. `ends`: those of the last batch.

        Some requests to each leader, and one for the first record of each of a few partitions.
        Raises: what the reader raises.
        """
        until = self._clock() + TIMEOUT_MS / 1_000
        unread: dict[str, list[tuple[int, TopicPartition, int, int]]] = {one.topic: [] for one in ends}
        for topic_partition, (begin, end) in self._unread(ends).items():
            unread.setdefault(topic_partition.topic, []).append((end - begin, topic_partition, begin, end))
        return {topic: self._topic(parts, until) for topic, parts in sorted(unread.items())}

    def _unread(self, ends: Offsets) -> dict[TopicPartition, tuple[int, int]]:
        """Return the start and end of what is there and not read."""
        latest = self._reader.latest(self._reader.find_partitions(self.options.topics, strict=False), ends)
        longer = [one for one, end in latest.items() if end > ends.get(one, 0)]
        earliest = self._reader.earliest(longer)
        unread = {one: (max(ends.get(one, 0), earliest.get(one, 0)), latest[one]) for one in longer}
        return {one: (begin, end) for one, (begin, end) in unread.items() if begin < end}

    def _topic(self, parts: list[tuple[int, TopicPartition, int, int]], until: float) -> TopicLag:
        if not parts:
            return TopicLag()
        parts.sort(key=lambda one: (-one[0], one[1]))
        records = sum(one[0] for one in parts)
        _, most, begin, _ = parts[0]
        size = round(records * self._reader.row_bytes(most, begin))
        times = []
        for _, topic_partition, begin, end in parts[:TIMES_MAX]:
            if self._clock() < until:
                times.append(first_time(self._reader, topic_partition, begin, end))
        known = [one for one in times if one is not None]
        age_ms = max(round(self._now_ms()) - min(known), 0) if known else None
        return TopicLag(records, size, None if age_ms is None else age_ms / 1_000)
