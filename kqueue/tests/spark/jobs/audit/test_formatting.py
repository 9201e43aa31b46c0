from __future__ import annotations

from kqueue.spark.jobs.audit.formatting import age_text, findings, plain, time_text
from kqueue.spark.jobs.audit.gaps import Gap
from kqueue.spark.jobs.audit.group_lag import GroupLag
from kqueue.spark.jobs.audit.report import AuditReport, PartitionAudit


def test_times_and_ages_are_shown_as_text() -> None:
    assert time_text(1_700_000_000_000) == "2023-11-14 22:13"
    assert time_text(10**17) == "100,000,000,000,000,000 ms"
    assert time_text(None) == age_text(None) == "-"
    assert [age_text(seconds * 1_000) for seconds in (0, 59, 3_600, 90_000 + 61)] == [
        "0 s",
        "59 s",
        "1 h 0 min",
        "1 d 1 h",
    ]


def test_control_characters_of_names_are_escaped() -> None:
    assert plain("billing [1]") == "billing [1]"
    assert plain("a\x1b[31mb\n") == "a\\x1b[31mb\\n"


def test_findings_say_one_sentence_for_each_fault() -> None:
    rows = [
        PartitionAudit("a", 0, 0, 5, records=5),
        PartitionAudit(
            "a",
            1,
            0,
            9,
            records=5,
            missing=3,
            gaps=[Gap(2, 4, "missing"), Gap(5, 6, "marker"), Gap(6, 7, "missing")],
            gap_count=9,
        ),
        PartitionAudit("b", 0, 0, 5, records=5, repeated=1, example=(2, 3)),
    ]
    lags = [GroupLag("g", "a", 0, 3, 5, 2, 0, 0, None), GroupLag("g", "a", 1, 3, 9, 5, 1, 0, None)]
    report = AuditReport("here", 0, rows, lags)
    assert list(findings(report)) == [
        "a-1: 3 offsets are missing, and nothing explains it (2 to 3, 6, …).",
        "b-0: 1 record is the same as an earlier one, for example offset 3 as 2.",
        "group g in a-1: 1 offset is deleted before the group had got there.",
    ]
    assert (report.missing, report.repeated) == (3, 1)
    assert list(findings(AuditReport("here", 0, rows[:1], []))) == [
        "All is there: each offset has a record, or it is known why not."
    ]
