"""Gathers rows per partition and encodes them as batches. No pyspark."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kqueue.base.clock import wall_ms
from kqueue.base.errors import InvalidRecord
from kqueue.client import TopicPartition
from kqueue.records.arrow.encoder import ProducerArgs, encode_batches
from kqueue.records.arrow.engine import EngineName, load_compiled_engine
from kqueue.spark.errors import RowRefused
from kqueue.spark.sink.columns import check_headers, record_columns, topics_of
from kqueue.spark.sink.options import SinkOptions
from kqueue.spark.sink.row_partitioning import TargetTopic, TargetTopics, partition_rows

if TYPE_CHECKING:
    import pyarrow as pa

GATHER_BYTES = 16 * 1024 * 1024
ROWS_FEW = 20_000
"""Below this number of rows plain Python encodes faster than importing numba takes."""


class ReadyBatch(NamedTuple):
    """An encoded batch, its partition and its number of records.

    `target`: the final partition of a staged batch.
    """

    topic_partition: TopicPartition
    batch: bytearray
    rows: int
    target: TopicPartition | None = None


class SequenceAllocator(Protocol):
    """Provides the producer id and the next sequence of each partition."""

    def next_args(self, topic_partition: TopicPartition) -> ProducerArgs:
        """Return the producer arguments of the partition's next batch."""
        ...

    def advance(self, topic_partition: TopicPartition, count: int) -> None:
        """Advance the partition's sequence after a batch of `count` records."""
        ...


class EngineSelector:
    """Chooses the encoder of a process: the compiled one after enough rows of all tasks."""

    def __init__(self) -> None:
        self._rows = 0

    def choose(self, asked: EngineName, rows: int) -> EngineName:
        """Return the engine for the next rows.

        Args:
            asked: the option encoder.
        """
        self._rows += rows
        if asked != "auto":
            return asked
        return "python" if load_compiled_engine(asked, 1 if self._rows < ROWS_FEW else None) is None else "fast"


ENGINES = EngineSelector()


class Batcher:
    """Turns rows into batches.

    Args:
        sequences: None: batches without a producer id.
        before: is called with partitions before the next batches of them are encoded.
    """

    def __init__(
        self,
        targets: TargetTopics,
        options: SinkOptions,
        sequences: SequenceAllocator | None,
        before: Callable[[Collection[TopicPartition]], None] = lambda partitions: None,
    ) -> None:
        self._targets = targets
        self._options = options
        self._sequences = sequences
        self._before = before
        self._rows: dict[TopicPartition, list[pa.RecordBatch]] = {}
        self._gathered = 0
        self._engine: EngineName = options["encoder"]

    def batches(self, rows: Iterable[pa.RecordBatch]) -> Iterator[ReadyBatch]:
        """Yield the batches of all rows. Raises: as `add`."""
        for some in rows:
            yield from self.add(some)
        yield from self.flush()

    def add(self, rows: pa.RecordBatch) -> Iterator[ReadyBatch]:
        """Add rows; yield batches once enough rows are gathered.

        Raises: RowRefused: a row cannot be written: no such topic or partition, a header without a
            key, larger than its topic accepts.
        """
        if not rows.num_rows:
            return
        check_headers(rows)
        self._engine = ENGINES.choose(self._options["encoder"], rows.num_rows)
        topic = self._options.topic
        for name, part in [(topic, rows)] if topic is not None else topics_of(rows):
            for topic_partition, mine in partition_rows(self._targets.get(name), part, self._engine):
                self._rows.setdefault(topic_partition, []).append(record_columns(mine))
        self._gathered += rows.nbytes
        if self._gathered >= GATHER_BYTES:
            yield from self.flush()

    def flush(self) -> Iterator[ReadyBatch]:
        """Yield batches of all gathered rows."""
        gathered, self._rows, self._gathered = self._rows, {}, 0
        if gathered:
            self._before(gathered.keys())
        for topic_partition, parts in gathered.items():
            yield from self._encode(self._targets.get(topic_partition.topic), topic_partition, parts)

    def _encode(
        self, target: TargetTopic, topic_partition: TopicPartition, parts: list[pa.RecordBatch]
    ) -> Iterator[ReadyBatch]:
        import pyarrow as pa

        allowed: int | None = self._options["kafka.max.request.size"]
        most = min(self._options["kafka.batch.size"], max(target.batch_bytes_max - target.batch_bytes_max // 64, 1))
        most = min(most, allowed or most)
        producer = self._sequences.next_args(topic_partition) if self._sequences is not None else ProducerArgs()
        producer["codec"] = target.codec
        producer["level"] = self._options.level(target.codec)
        now_ms = wall_ms()
        table = pa.Table.from_batches(parts)
        try:
            for batch, count in encode_batches(
                table, batch_bytes=most, default_ms=now_ms, engine=self._engine, **producer
            ):
                if len(batch) > target.batch_bytes_max:
                    raise RowRefused(_too_large(target, topic_partition, len(batch), count))
                if allowed is not None and len(batch) > allowed:
                    raise RowRefused(
                        f"a row for {topic_partition} takes {len(batch)} bytes as a batch, and "
                        f"kafka.max.request.size is {allowed}"
                    )
                if self._sequences is not None:
                    self._sequences.advance(topic_partition, count)
                yield ReadyBatch(topic_partition, batch, count)
        except InvalidRecord as error:
            raise RowRefused(f"a row for {topic_partition} can't be a record: {error}") from None


def _too_large(target: TargetTopic, topic_partition: TopicPartition, size: int, count: int) -> str:
    what = "a row" if count == 1 else f"a batch of {count} rows"
    return (
        f"{what} for {topic_partition} takes {size} bytes as a batch, and its topic takes "
        f"{target.batch_bytes_max} at most: "
        f"raise max.message.bytes of topic {target.name!r}, or write smaller "
        f"{'rows' if count == 1 else 'batches (kafka.batch.size)'}"
    )
