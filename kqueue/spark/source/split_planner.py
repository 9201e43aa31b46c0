"""Divides a batch's offset ranges among tasks. No pyspark, no I/O."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from kqueue.client.topic_partition import TopicPartition
from kqueue.spark.offsets import Offsets

RowBytes = Callable[[TopicPartition], float]


class OffsetRange(NamedTuple):
    """Offsets of a partition in [start, end). Compaction may leave fewer records.

    topic_id: of the topic for which it was planned, as another may get its name; "": unknown.
    is_tiered: the tier has it, and it is read there.
    """

    topic: str
    partition: int
    start: int
    end: int
    topic_id: str = ""
    is_tiered: bool = False

    @property
    def topic_partition(self) -> TopicPartition:
        """Its partition."""
        return TopicPartition(self.topic, self.partition)

    @property
    def size(self) -> int:
        """The number of offsets."""
        return self.end - self.start

    def __str__(self) -> str:
        return f"{self.topic_partition} from {self.start} to {self.end}"


def rate_limited(start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int], limit: int) -> Offsets:
    """Return the end offsets of a batch of `limit` offsets.

    Each partition gets a share in proportion to its lag, and at least one offset if it lags. With
    more lagging partitions than `limit`, each gets one offset.

    Args:
        start: of every partition in `end`.
    Source: Spark's KafkaMicroBatchStream.rateLimit.
    """
    lags = {topic_partition: max(0, end[topic_partition] - start[topic_partition]) for topic_partition in end}
    total = sum(lags.values())
    if total <= limit:
        return dict(end)
    return {
        topic_partition: start[topic_partition] + max(1, lag * limit // total) if lag else end[topic_partition]
        for topic_partition, lag in lags.items()
    }


def split_ranges(
    ranges: Iterable[OffsetRange],
    row_bytes: RowBytes,
    *,
    split_bytes: int,
    splits_min: int | None = None,
    rows_max: int | None = None,
) -> list[tuple[OffsetRange, ...]]:
    """Return the ranges as splits: large ranges cut, small ranges combined.

    Starting a Python task takes longer than reading a few MiB. So ranges below `split_bytes` are
    combined to about that size, as long as `splits_min` splits remain. A partition is cut only for
    `rows_max` (offsets per split) and `splits_min`.
    """
    pieces = [piece for one in ranges if one.size > 0 for piece in _even(one, _parts(one.size, rows_max))]
    if splits_min is not None:
        pieces = _at_least(pieces, splits_min)
    sizes = {piece: piece.size * row_bytes(piece.topic_partition) for piece in pieces}
    large: list[tuple[OffsetRange, ...]] = [(piece,) for piece in pieces if sizes[piece] >= split_bytes]
    small = sorted((piece for piece in pieces if sizes[piece] < split_bytes), key=lambda piece: -sizes[piece])
    if not small:
        return large
    count = max(1, (splits_min or 0) - len(large), _parts_of(sum(sizes[piece] for piece in small), split_bytes))
    return sorted([*large, *_shared(small, sizes, min(count, len(small)), rows_max)])


def _parts_of(total: float, part: int) -> int:
    return -int(-total // part)


def _parts(size: int, rows_max: int | None) -> int:
    return 1 if rows_max is None else -(-size // rows_max)


def _even(one: OffsetRange, parts: int) -> list[OffsetRange]:
    edges = [one.start + one.size * number // parts for number in range(parts + 1)]
    return [one._replace(start=edges[number], end=edges[number + 1]) for number in range(parts)]


def _at_least(pieces: Sequence[OffsetRange], count: int) -> list[OffsetRange]:
    """Cut the largest ranges until there are `count`, or each has one offset.

    Parts of one range are even, since each is cut from the whole range.
    """
    if not pieces:
        return []
    parts = [1] * len(pieces)
    heap = [(-float(piece.size), number) for number, piece in enumerate(pieces)]
    heapq.heapify(heap)
    for _ in range(count - len(pieces)):
        number = heap[0][1]
        if parts[number] == pieces[number].size:  # the one with the largest parts has parts of one offset
            break
        parts[number] += 1
        heapq.heapreplace(heap, (-pieces[number].size / parts[number], number))
    return [part for piece, into in zip(pieces, parts, strict=True) for part in _even(piece, into)]


def _shared(
    pieces: Sequence[OffsetRange], sizes: Mapping[OffsetRange, float], count: int, rows_max: int | None
) -> list[tuple[OffsetRange, ...]]:
    """Distribute ranges over `count` splits, largest first, each into the emptiest split.

    Opens another split where one would exceed `rows_max`.
    """
    splits: list[list[OffsetRange]] = [[] for _ in range(count)]
    heap = [(0.0, 0, number) for number in range(count)]
    for piece in pieces:
        filled, rows, number = heap[0]
        if rows_max is not None and rows and rows + piece.size > rows_max:
            splits.append([piece])
            heapq.heappush(heap, (sizes[piece], piece.size, len(splits) - 1))
            continue
        splits[number].append(piece)
        heapq.heapreplace(heap, (filled + sizes[piece], rows + piece.size, number))
    return [tuple(sorted(one)) for one in splits if one]
