"""What an audit finds out. Knows no Spark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kqueue.spark.jobs.audit.gaps import GAPS_NAMED, Gap
from kqueue.spark.jobs.audit.group_lag import GroupLag
from kqueue.spark.jobs.audit.partition_summary import KEYS_KEPT, Times

NO_TIMES = Times()


@dataclass(frozen=True, slots=True)
class PartitionAudit:
    """What a partition holds.

    start, end: where its log begins, and how far it can be read; first, last: of the offsets that
    have a record, None: there are none. Each offset from 0 to `end` is counted once: `deleted` lie
    before the start, `records` have a record, `markers` end transactions, `compacted` were taken by
    compaction, and `missing` has what nothing explains. gaps: the first `GAPS_NAMED` ranges of the
    last three kinds; gap_count: how many there are. repeated: records that have key, value, headers
    and time in common with an earlier one; example: two such offsets. aborted, open: records of
    transactions that were aborted, or are open; None: it has no markers, so nobody looked. keys:
    how many different ones, exact below 1,024, else within 3 %. largest: bytes of key and value, at
    `largest_offset`. first_ms, last_ms: least and greatest time; backward: records that are older
    than the one before, backward_ms: by how much at most. cells: records in equal parts of the
    offsets from `start` to `end`; times: records over time.
    """

    topic: str
    partition: int
    start: int
    end: int
    records: int = 0
    first: int | None = None
    last: int | None = None
    deleted: int = 0
    markers: int = 0
    compacted: int = 0
    missing: int = 0
    gaps: Sequence[Gap] = ()
    gap_count: int = 0
    repeated: int = 0
    example: tuple[int, int] | None = None
    aborted: int | None = None
    open: int | None = None
    keys: int = 0
    keyless: int = 0
    tombstones: int = 0
    key_bytes: int = 0
    value_bytes: int = 0
    largest: int = 0
    largest_offset: int | None = None
    timeless: int = 0
    first_ms: int | None = None
    last_ms: int | None = None
    backward: int = 0
    backward_ms: int = 0
    policy: str | None = None
    cells: Sequence[int] = ()
    holes: Sequence[Gap] = ()
    times: Times = NO_TIMES

    @property
    def bytes(self) -> int:
        """Of keys and values."""
        return self.key_bytes + self.value_bytes

    @property
    def keys_are_estimated(self) -> bool:
        return self.keys >= KEYS_KEPT

    def as_json(self) -> dict[str, Any]:
        """All but what is for pictures only."""
        found: dict[str, Any] = {
            name: getattr(self, name) for name in self.__slots__ if name not in ("cells", "times", "holes")
        }
        found["gaps"] = [gap._asdict() for gap in self.gaps[:GAPS_NAMED]]
        return found


@dataclass(frozen=True, slots=True)
class AuditReport:
    """partitions, lags: sorted. taken_ms: when; source: the broker or folder.

    lag_unknown: why nothing is known of groups, "": all is. note: what else to know, as a sentence,
    "": nothing.
    """

    source: str
    taken_ms: int
    partitions: Sequence[PartitionAudit]
    lags: Sequence[GroupLag]
    lag_unknown: str = ""
    note: str = ""

    @property
    def missing(self) -> int:
        return sum(one.missing for one in self.partitions)

    @property
    def repeated(self) -> int:
        return sum(one.repeated for one in self.partitions)
