"""Mergeable summaries of a partition's records, of bounded size. No pyspark; needs NumPy.

A task reads records in offset order, some thousand at a time. Each such piece gives a
`PartitionSummary`. Adjacent summaries are merged in the task, and the driver merges those of all
tasks.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np

Ranges = list[tuple[int, int]]
"""Offset ranges [first, end)."""
RANGES_KEPT = 1_000
CELLS = 240
TIMES_MAX = 512
KEYS_KEPT = 1_024
_DAY_MS = 86_400_000
_YEARS_MS = tuple(364 * _DAY_MS * 10**power for power in range(8))
WIDTHS_MS = (1_000, 10_000, 60_000, 600_000, 3_600_000, _DAY_MS, 7 * _DAY_MS, 28 * _DAY_MS, *_YEARS_MS)
"""The durations that one count can cover, ascending; each is a multiple of the previous one."""


class Columns(NamedTuple):
    """Records of one partition, ascending by offset; at least one. Arrays of equal length.

    offset: int64. ms: int64, undefined where `has_time` is false. key: 64-bit hashes of keys,
    undefined where `has_key` is false. key_bytes, value_bytes: int64, 0 without a key or value.
    has_time, has_key, has_value: bool.
    """

    offset: np.ndarray
    ms: np.ndarray
    key: np.ndarray
    key_bytes: np.ndarray
    value_bytes: np.ndarray
    has_time: np.ndarray
    has_key: np.ndarray
    has_value: np.ndarray


@dataclass(frozen=True)
class Times:
    """A histogram: records per interval of `WIDTHS_MS[level]` ms, by interval number."""

    level: int = 0
    counts: dict[int, int] = field(default_factory=dict)

    def coarser(self, level: int) -> Times:
        """Return the histogram at this level or a coarser one with at most `TIMES_MAX` counts."""
        coarse = self
        while coarse.level < level or len(coarse.counts) > TIMES_MAX:
            ratio = WIDTHS_MS[coarse.level + 1] // WIDTHS_MS[coarse.level]
            counts: dict[int, int] = {}
            for span, count in coarse.counts.items():
                counts[span // ratio] = counts.get(span // ratio, 0) + count
            coarse = Times(coarse.level + 1, counts)
        return coarse

    def plus(self, other: Times) -> Times:
        """Return the sum of two histograms."""
        level = max(self.level, other.level)
        one, two = self.coarser(level), other.coarser(level)
        level = max(one.level, two.level)
        one, two = one.coarser(level), two.coarser(level)
        counts = dict(one.counts)
        for span, count in two.counts.items():
            counts[span] = counts.get(span, 0) + count
        return Times(level, counts).coarser(level)


@dataclass
class PartitionSummary:
    """A summary of the records from offset `first` to `last`.

    gaps: the first `RANGES_KEPT` ranges of missing offsets in it. gap_count: number of ranges.
    missing: number of offsets. first_ms, last_ms: of the first and last record with a timestamp.
    least_ms, most_ms: minimum and maximum; None: no timestamps. backward: records older than their
    predecessor. backward_ms: the largest distance to an earlier record's timestamp. timeless:
    records without a timestamp. largest: bytes of key and value, and the offset. cells: records in
    `CELLS` equal parts of the partition's offsets. keys: the `KEYS_KEPT` smallest distinct key
    hashes, ascending.
    """

    first: int
    last: int
    records: int
    gaps: Ranges
    gap_count: int
    missing: int
    first_ms: int | None
    last_ms: int | None
    least_ms: int | None
    most_ms: int | None
    backward: int
    backward_ms: int
    timeless: int
    keyless: int
    tombstones: int
    key_bytes: int
    value_bytes: int
    largest: tuple[int, int]
    cells: list[int]
    times: Times
    keys: list[int]

    def plus(self, later: PartitionSummary) -> PartitionSummary:
        """Return the merge with a later summary. Offsets between both are missing."""
        between = [(self.last + 1, later.first)] if later.first > self.last + 1 else []
        backward = self.backward + later.backward
        backward_ms = max(self.backward_ms, later.backward_ms)
        if self.last_ms is not None and later.first_ms is not None:
            assert self.most_ms is not None
            assert later.least_ms is not None
            backward += later.first_ms < self.last_ms
            backward_ms = max(backward_ms, self.most_ms - later.least_ms)
        return PartitionSummary(
            first=self.first,
            last=later.last,
            records=self.records + later.records,
            gaps=[*self.gaps, *between, *later.gaps][:RANGES_KEPT],
            gap_count=self.gap_count + len(between) + later.gap_count,
            missing=self.missing + later.missing + later.first - self.last - 1,
            first_ms=later.first_ms if self.first_ms is None else self.first_ms,
            last_ms=self.last_ms if later.last_ms is None else later.last_ms,
            least_ms=_of(min, self.least_ms, later.least_ms),
            most_ms=_of(max, self.most_ms, later.most_ms),
            backward=backward,
            backward_ms=backward_ms,
            timeless=self.timeless + later.timeless,
            keyless=self.keyless + later.keyless,
            tombstones=self.tombstones + later.tombstones,
            key_bytes=self.key_bytes + later.key_bytes,
            value_bytes=self.value_bytes + later.value_bytes,
            largest=max(self.largest, later.largest, key=lambda one: one[0]),
            cells=[one + two for one, two in zip(self.cells, later.cells, strict=True)],
            times=self.times.plus(later.times),
            keys=_least(self.keys, later.keys),
        )

    @property
    def key_count(self) -> int:
        """The number of distinct keys: exact below `KEYS_KEPT`, else within about 3 %."""
        if len(self.keys) < KEYS_KEPT:
            return len(self.keys)
        share = (self.keys[-1] + 2**63) / 2**64  # of all hashes, those up to the last that is kept
        return round((KEYS_KEPT - 1) / share)

    def to_json(self) -> str:
        """Return it as JSON, to pass through Spark."""
        return json.dumps(asdict(self), separators=(",", ":"))


def from_json(text: str) -> PartitionSummary:
    """Parse the text of `to_json`."""
    read: dict[str, Any] = json.loads(text)
    times = Times(read["times"]["level"], {int(span): count for span, count in read["times"]["counts"].items()})
    gaps = [(first, end) for first, end in read["gaps"]]
    return PartitionSummary(
        **{**read, "times": times, "gaps": gaps, "largest": (read["largest"][0], read["largest"][1])}
    )


def summarize(columns: Columns, start: int, end: int) -> PartitionSummary:
    """Return the summary of records.

    Args:
        start, end: the partition's offsets, which `cells` divides.
    """
    import numpy as np

    offset = columns.offset
    steps = np.flatnonzero(np.diff(offset) > 1)
    size = columns.key_bytes + columns.value_bytes
    largest = int(np.argmax(size))
    gaps = [(int(offset[step]) + 1, int(offset[step + 1])) for step in steps[:RANGES_KEPT]]
    ms = columns.ms[columns.has_time]
    first, last = int(offset[0]), int(offset[-1])
    return PartitionSummary(
        first=first,
        last=last,
        records=len(offset),
        gaps=gaps,
        gap_count=len(steps),
        missing=last - first + 1 - len(offset),
        first_ms=int(ms[0]) if len(ms) else None,
        last_ms=int(ms[-1]) if len(ms) else None,
        least_ms=int(ms.min()) if len(ms) else None,
        most_ms=int(ms.max()) if len(ms) else None,
        backward=int(np.count_nonzero(np.diff(ms) < 0)),
        backward_ms=int((np.maximum.accumulate(ms) - ms).max()) if len(ms) else 0,
        timeless=len(offset) - len(ms),
        keyless=int(np.count_nonzero(~columns.has_key)),
        tombstones=int(np.count_nonzero(~columns.has_value)),
        key_bytes=int(columns.key_bytes.sum()),
        value_bytes=int(columns.value_bytes.sum()),
        largest=(int(size[largest]), int(offset[largest])),
        cells=_cells(offset, start, end),
        times=_times(ms),
        keys=np.unique(columns.key[columns.has_key])[:KEYS_KEPT].tolist(),
    )


def merge_summaries(summaries: Iterable[PartitionSummary]) -> PartitionSummary | None:
    """Return a partition's summaries merged; duplicates count once. None: no summaries."""
    merged: PartitionSummary | None = None
    for one in sorted(summaries, key=lambda one: one.first):
        if merged is None:
            merged = one
        elif one.first > merged.last:
            merged = merged.plus(one)
    return merged


def _cells(offset: np.ndarray, start: int, end: int) -> list[int]:
    import numpy as np

    cell: np.ndarray = ((offset - start) * CELLS) // max(end - start, 1)
    counts: list[int] = np.bincount(np.clip(cell, 0, CELLS - 1), minlength=CELLS).tolist()
    return counts


def _times(ms: np.ndarray) -> Times:
    import numpy as np

    spans, counts = np.unique(ms // WIDTHS_MS[0], return_counts=True)
    return Times(0, dict(zip(spans.tolist(), counts.tolist(), strict=True))).coarser(0)


def _least(one: list[int], two: list[int]) -> list[int]:
    import numpy as np

    if len(one) == KEYS_KEPT and (not two or two[0] > one[-1]):
        return one
    kept: list[int] = np.unique(np.array([*one, *two], np.int64))[:KEYS_KEPT].tolist()
    return kept


def _of(which: Any, one: int | None, two: int | None) -> int | None:
    """Return the minimum or maximum of the values that are not None."""
    known = [each for each in (one, two) if each is not None]
    return which(known) if known else None
