from __future__ import annotations

from kqueue.records.record import ABORT, COMMIT
from kqueue.spark.jobs.audit.gaps import COMPACTED, MARKER, MISSING, BatchSpan, Gap, explain_gaps, find_gaps

LOG = [
    BatchSpan(0, 9, 10),
    BatchSpan(10, 19, 7),  # three were taken out of it
    BatchSpan(20, 20, 1, control=COMMIT, producer=1),
    BatchSpan(25, 29, 5, producer=2),  # 21 to 24: no batch
    BatchSpan(30, 30, 1, control=ABORT, producer=2),
    BatchSpan(31, 35, 5, producer=3),
    BatchSpan(36, 36, 1, control=-1),
]


def test_each_offset_without_a_record_has_a_reason() -> None:
    report = find_gaps(LOG, 0, 40, [(12, 15), (20, 25), (30, 31), (36, 40)])
    assert (report.markers, report.compacted, report.between) == (3, 3, 4 + 3)
    assert (report.aborted, report.open) == (5, 5)
    assert report.ranges == [
        Gap(20, 21, MARKER),
        Gap(21, 25, MISSING),
        Gap(30, 31, MARKER),
        Gap(36, 37, MARKER),
        Gap(37, 40, MISSING),
    ]


def test_the_worst_reason_of_a_range_counts() -> None:
    gaps = [(12, 15), (20, 25), (30, 31), (36, 40)]
    report = find_gaps(LOG, 0, 40, gaps)
    assert [gap.why for gap in explain_gaps(gaps, report, is_compacted=False)] == [COMPACTED, MISSING, MARKER, MISSING]
    assert [gap.why for gap in explain_gaps(gaps, report, is_compacted=True)] == [
        COMPACTED,
        COMPACTED,
        MARKER,
        COMPACTED,
    ]


def test_only_gaps_near_the_ranges_are_kept() -> None:
    log = [BatchSpan(number, number, 1, control=COMMIT, producer=1) for number in range(0, 2_000, 2)]
    report = find_gaps(log, 0, 2_000, [(10, 13)])
    assert (report.markers, report.between) == (1_000, 1_000)
    assert report.ranges == [Gap(10, 11, MARKER), Gap(11, 12, MISSING), Gap(12, 13, MARKER)]


def test_gaps_outside_the_scanned_range_are_not_reported() -> None:
    """Offsets outside are nobody's business; those inside of batches that are cut can't be told."""
    report = find_gaps(
        [BatchSpan(0, 9, 10), BatchSpan(10, 10, 1, control=COMMIT, producer=1), BatchSpan(12, 20, 9)], 5, 15, [(10, 12)]
    )
    assert (report.markers, report.between) == (1, 1)
    assert find_gaps([], 3, 3, []).between == 0
    assert find_gaps([], 3, 8, [(3, 8)]).ranges == [Gap(3, 8, MISSING)]
