"""S7.2: findings and reports."""

from __future__ import annotations

from kqueue.log_tools.verify.report import NOTE, PER_FILE_MAX, Finding, VerificationReport


def test_a_finding_is_a_sentence() -> None:
    assert str(Finding("t-0/x.log", 7, "a", "b")) == "t-0/x.log at position 7: expected a, found b"
    assert str(Finding("t-0", None, "a", "b")) == "t-0: expected a, found b"


def test_findings_of_one_file_are_bounded() -> None:
    report = VerificationReport("somewhere")
    for number in range(PER_FILE_MAX + 5):
        report.add(Finding("x", number, "a", "b"))
    report.add(Finding("x", 0, "a", "b", NOTE))
    report.add(Finding("y", 0, "a", "b"))
    report.close()
    assert len(report.errors) == PER_FILE_MAX + 2
    assert report.errors[-1].found == "5 more like these"
    assert len(report.notes) == 1


def test_notes_leave_a_report_sound() -> None:
    report = VerificationReport("somewhere")
    report.add(Finding("x", None, "a", "b", NOTE))
    assert report.is_sound
    report.add(Finding("x", None, "a", "b"))
    assert not report.is_sound
    assert report.as_json()["findings"][1] == {
        "file": "x",
        "position": None,
        "expected": "a",
        "found": "b",
        "severity": "error",
    }
