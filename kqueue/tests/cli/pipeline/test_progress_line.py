"""The progress of a job: lines at intervals without a terminal, one line on a terminal."""

from __future__ import annotations

import io
import os
import queue
from pathlib import Path

import pytest

from kqueue.cli.escaping_console import EscapingConsole
from kqueue.cli.pipeline import progress_line
from kqueue.cli.pipeline.progress_line import PeriodicLines, ProgressLine, kept_stderr
from kqueue.spark.console_output import stderr_to
from kqueue.tests.waits import eventually


def test_without_a_terminal_a_line_says_where_a_job_is() -> None:
    now = [5.0]
    lines = PeriodicLines(lambda line: None, clock=lambda: now[0])
    assert lines.line() == ""
    lines.show("Audit", "3 of 10 records")
    now[0] += 20
    assert lines.line() == "Audit: 3 of 10 records, after 20 s"
    lines.show("Starting Spark")
    assert lines.line() == "Starting Spark: after 20 s"


def test_lines_are_written_while_a_job_reports_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_line, "PERIOD_S", 0.01)
    written: queue.Queue[str] = queue.Queue()
    lines = PeriodicLines(written.put, clock=lambda: 0)
    lines.show("Audit")
    lines.begin()
    assert [written.get(timeout=60) for _ in range(2)] == ["Audit: after 0 s"] * 2
    lines.end()


def test_a_stage_without_lines_and_a_hidden_one_print_none() -> None:
    progress = ProgressLine()
    lines = progress._lines
    assert lines is not None
    progress.start("Starting Spark")
    assert lines.line().startswith("Starting Spark: after ")
    progress.start("Waiting for executors", has_lines=False)
    assert lines.line() == ""
    progress.update("Audit", 3, 10)
    assert lines.line().startswith("Audit: 3 of 10 records, after ")
    progress.clear()
    assert lines.line() == ""


def test_progress_is_silent_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressLine() as line:
        line.start("Reading")
        line.update("Reading", 5, 10)
    assert capsys.readouterr() == ("", "")


def test_progress_on_a_terminal_has_stage_counts_and_total(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    terminal = EscapingConsole(file=screen, force_terminal=True, width=120)
    monkeypatch.setattr(progress_line, "new_console", lambda *_: terminal)
    with ProgressLine() as line:
        line.start("Reading")
        line.update("Writing", 1_500, 2_000)
        line._progress.refresh()
        line.say("2 [files] are left out")
    shown = screen.getvalue()
    assert "Reading" in shown
    assert "Writing" in shown
    assert "1,500 of 2,000 records" in shown
    assert "2 [files] are left out" in shown


def test_the_progress_of_a_start_is_not_hidden_with_the_words_of_java(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress_line, "PERIOD_S", 0.01)
    noise = tmp_path / "noise"
    with kept_stderr() as output, ProgressLine(output) as line, stderr_to(noise):
        line.start("Starting Spark")
        os.write(2, b"words of Java\n")
        eventually(lambda: "Starting Spark: after " in capfd.readouterr().err)
    assert noise.read_bytes() == b"words of Java\n"


def test_standard_error_that_is_no_file_is_used_itself(capsys: pytest.CaptureFixture[str]) -> None:
    with kept_stderr() as output:
        output.write("here\n")
    assert capsys.readouterr().err == "here\n"
