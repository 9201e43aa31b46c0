"""Formats the findings of an audit as text, for terminal and HTML. No pyspark."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from kqueue.spark.jobs.audit.gaps import MISSING
from kqueue.spark.jobs.audit.group_lag import GroupLag
from kqueue.spark.jobs.audit.report import AuditReport, PartitionAudit

NONE = "-"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def time_text(ms: int | None) -> str:
    """Return ``2026-01-31 12:00`` in UTC; ms as a number where no calendar date exists."""
    if ms is None:
        return NONE
    try:
        return f"{_EPOCH + timedelta(milliseconds=ms):%Y-%m-%d %H:%M}"
    except OverflowError:
        return f"{ms:,} ms"


def age_text(ms: int | None) -> str:
    """Return a duration in its two largest units: ``3 d 4 h``."""
    if ms is None:
        return NONE
    left = max(ms, 0) // 1000
    parts: list[str] = []
    for size, unit in _UNITS:
        if left >= size or parts:
            parts.append(f"{left // size} {unit}")
            left %= size
    return " ".join(parts[:2]) or "0 s"


def plain(text: str) -> str:
    """Return text without terminal control characters; printable text is unchanged."""
    return text if text.isprintable() else text.encode("unicode_escape").decode()


def offsets_text(first: int, end: int) -> str:
    """Return ``12`` or ``12 to 15``."""
    return f"{first:,}" if end - first == 1 else f"{first:,} to {end - 1:,}"


def findings(report: AuditReport) -> Iterator[str]:
    """Yield a sentence per problem, or one that says there are none."""
    sentences = [sentence for row in report.partitions for sentence in _of_partition(row)]
    sentences += [sentence for lag in report.lags for sentence in _of_group(lag)]
    subject = "All that was read is there" if report.note else "All is there"
    yield from sentences or [f"{subject}: each offset has a record, or it is known why not."]


def _of_partition(row: PartitionAudit) -> Iterator[str]:
    name = f"{row.topic}-{row.partition}"
    if row.missing:
        ranges = [gap for gap in row.gaps if gap.why == MISSING]
        where = [offsets_text(gap.first, gap.end) for gap in ranges] + (["…"] if row.gap_count > len(row.gaps) else [])
        yield f"{name}: {_many(row.missing, 'offset')} missing, and nothing explains it ({', '.join(where)})."
    if row.repeated:
        assert row.example is not None
        first, again = row.example
        example = f"for example offset {again:,} as {first:,}"
        yield f"{name}: {_many(row.repeated, 'record')} the same as an earlier one, {example}."
    if row.open:
        yield f"{name}: {_many(row.open, 'record')} of transactions that have no end yet."


def _of_group(lag: GroupLag) -> Iterator[str]:
    name = f"group {plain(lag.group)} in {lag.topic}-{lag.partition}"
    if lag.deleted:
        yield f"{name}: {_many(lag.deleted, 'offset')} deleted before the group had got there."
    if lag.ahead:
        what = f"committed {lag.committed:,}, but the log ends at {lag.end:,}"
        yield f"{name}: {what}; the topic was recreated, or lost its end."


def _many(count: int, noun: str) -> str:
    return f"1 {noun} is" if count == 1 else f"{count:,} {noun}s are"
