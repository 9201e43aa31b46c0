from __future__ import annotations

import logging

from kqueue.base import events
from kqueue.base.log_event import LogEvent, event_of, plain_fields
from kqueue.supervisor.line_limit import LINES_MAX, LineLimit
from kqueue.tests.tables import for_each

NOISE = LogEvent("client.noise", logging.WARNING, "", is_limited=True)
OTHER = LogEvent("client.other", logging.INFO, "", is_limited=True)
QUIET = LogEvent("disk.full", logging.WARNING, "")
ERROR = LogEvent("log.damaged", logging.ERROR, "", is_limited=True)
TABLE = (NOISE, OTHER, QUIET, ERROR)


def line(event: LogEvent | None, at_s: float, level: int | None = None) -> logging.LogRecord:
    record = logging.LogRecord("kqueue", level or (event or NOISE).level, __file__, 1, "text", (), None)
    record.created = at_s
    if event is not None:
        vars(record).update(event.extra())
    return record


def admitted(limit: LineLimit, event: LogEvent | None, count: int, at_s: float = 0.0) -> int:
    return sum(limit.admits(line(event, at_s)) for _ in range(count))


def test_only_the_first_lines_of_a_minute_are_written() -> None:
    limit = LineLimit(TABLE)
    assert admitted(limit, NOISE, 1244) == LINES_MAX
    assert admitted(limit, NOISE, 1, at_s=59.9) == 0
    assert admitted(limit, NOISE, 20, at_s=60.0) == LINES_MAX


def test_what_was_left_out_is_counted_once_when_the_minute_is_over() -> None:
    limit = LineLimit(TABLE)
    admitted(limit, NOISE, LINES_MAX + 1234)
    assert limit.summaries(59.0) == []
    (summary,) = limit.summaries(60.0)
    assert summary.getMessage() == "client.noise: 1,234 more lines were left out within a minute"
    assert (event_of(summary), summary.levelno) == (events.LINES_LEFT_OUT.name, logging.WARNING)
    assert plain_fields(summary) == {"of": "client.noise", "lines": 1234}
    assert limit.summaries(60.0) == []


def test_the_end_of_the_process_ends_all_minutes() -> None:
    limit = LineLimit(TABLE)
    admitted(limit, NOISE, LINES_MAX + 1)
    admitted(limit, OTHER, LINES_MAX)
    assert [plain_fields(each)["lines"] for each in limit.summaries()] == [1]


def test_one_event_does_not_hide_another() -> None:
    limit = LineLimit(TABLE)
    admitted(limit, NOISE, 100)
    assert admitted(limit, OTHER, 1) == 1


@for_each("event", [QUIET, ERROR, None])
def test_errors_what_clients_do_not_cause_and_libraries_have_no_bound(event: LogEvent | None) -> None:
    assert admitted(LineLimit(TABLE), event, 1000) == 1000


def test_a_line_of_error_with_a_bounded_event_is_written() -> None:
    limit = LineLimit(TABLE)
    admitted(limit, NOISE, 100)
    assert limit.admits(line(NOISE, 0.0, logging.ERROR))


def test_a_clock_that_is_set_back_begins_another_minute() -> None:
    limit = LineLimit(TABLE)
    admitted(limit, NOISE, 100, at_s=10_000.0)
    assert admitted(limit, NOISE, 1, at_s=9_990.0) == 0, "threads may write out of order"
    assert len(limit.summaries(100.0)) == 1
    assert admitted(limit, NOISE, 1, at_s=100.0) == 1


def test_memory_is_bounded_by_the_table() -> None:
    limit = LineLimit(TABLE)
    for number in range(1000):
        limit.admits(line(LogEvent(f"made.up-{number}", logging.WARNING, "", is_limited=True), 0.0))
    assert len(limit._minutes) == 0
