"""The result of an audit. No pyspark."""

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
    """The contents of a partition. Its field names are part of `kqueue pipeline audit --json`.

    start, end: log start and readable end. first, last: first and last offset with a record; None:
    none. Each offset in [0, end) is counted once: `deleted` before the start, `records` with a
    record, `markers` of transactions, `compacted`, and `missing` without explanation. gaps: the
    first `GAPS_NAMED` ranges of the last three; gap_count: their number. repeated: records equal to
    an earlier one in key, value, headers and time; example: two such offsets. aborted, open:
    records of aborted and open transactions; None: there are no transactions. keys: number of
    distinct keys, exact below 1,024, else within 3 %. largest: bytes of key and value, at
    `largest_offset`. first_ms, last_ms: least and greatest timestamp. backward: records older than
    their predecessor; backward_ms: the maximum difference. cells: records in equal parts of [start,
    end). times: records over time.
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
        """Bytes of keys and values."""
        return self.key_bytes + self.value_bytes

    @property
    def keys_are_estimated(self) -> bool:
        """Return whether `keys` is an estimate."""
        return self.keys >= KEYS_KEPT

    def as_json(self) -> dict[str, Any]:
        """Return all fields except those that only charts use."""
        document: dict[str, Any] = {
            name: getattr(self, name) for name in self.__slots__ if name not in ("cells", "times", "holes")
        }
        document["gaps"] = [gap._asdict() for gap in self.gaps[:GAPS_NAMED]]
        return document


@dataclass(frozen=True, slots=True)
class AuditReport:
    """The report. partitions, lags: sorted.

    source: the brokers or the folder. taken_ms: time of the audit. lag_unknown: why group lag is
    unknown, "": it is known. note: what was left out of a folder in use, as a sentence; "":
    nothing.
    """

    source: str
    taken_ms: int
    partitions: Sequence[PartitionAudit]
    lags: Sequence[GroupLag]
    lag_unknown: str = ""
    note: str = ""

    @property
    def missing(self) -> int:
        """Missing offsets of all partitions."""
        return sum(one.missing for one in self.partitions)

    @property
    def repeated(self) -> int:
        """Duplicate records of all partitions."""
        return sum(one.repeated for one in self.partitions)
