from __future__ import annotations

import io
import json
import logging
import sys
import warnings
from collections.abc import Iterator

import pytest

from kqueue.base import events
from kqueue.base.log_event import LOG_FORMAT, LogEvent
from kqueue.config.properties import SourcedValue
from kqueue.supervisor.line_limit import LINES_MAX
from kqueue.supervisor.logs import JsonFormatter, LabelledFormatter, LogOutput, OneLineFormatter, given_form
from kqueue.tests.tables import for_each

HOSTILE = 'a\n2026 ERROR\x1b[31m\u202e\u2028", "event": "log.damaged'


def raised(text: str) -> tuple[type[BaseException], BaseException, object]:
    try:
        raise ValueError(text)
    except ValueError:
        return sys.exc_info()  # type: ignore[return-value]


def record(text: str, *args: object, event: LogEvent | None = None, **more: object) -> logging.LogRecord:
    line = logging.LogRecord("kqueue.server", logging.WARNING, __file__, 1, text, args, more.pop("exc_info", None))  # type: ignore[arg-type]
    line.created, line.msecs = 1_769_860_800.007, 7
    vars(line).update({} if event is None else event.extra(**more))
    return line


@pytest.fixture
def output() -> Iterator[LogOutput]:
    output = LogOutput()
    output.stream = io.StringIO()
    yield output
    output.close()


def lines(output: LogOutput) -> list[str]:
    return output.stream.getvalue().splitlines()


def test_each_line_of_a_traceback_has_the_label() -> None:
    line = logging.LogRecord("kqueue", logging.ERROR, __file__, 1, "it failed", (), raised("bad"))  # type: ignore[arg-type]
    first, *others = LabelledFormatter("worker 3").format(line).splitlines()
    assert first.endswith("ERROR   worker 3: it failed")
    assert others[-1] == "worker 3: ValueError: bad"
    assert all(line.startswith("worker 3: ") for line in others)


@for_each("formatter", [OneLineFormatter("%(message)s"), LabelledFormatter("worker 3")])
def test_a_name_in_a_message_begins_no_other_line(formatter: logging.Formatter) -> None:
    (line,) = formatter.format(record("group %s", "a\n2026 ERROR\x1b[31m\u202e")).splitlines()
    assert line.endswith(r"group a\n2026 ERROR\x1b[31m\u202e")


def test_a_name_in_a_traceback_has_no_control_characters() -> None:
    text = OneLineFormatter("%(message)s").format(record("failed", exc_info=raised("\x1b[31m\u202e")))
    assert text.splitlines()[-1] == r"ValueError: \x1b[31m\u202e"


def test_json_has_the_keys_of_the_documentation() -> None:
    line = record("%s is full", "/data", event=events.DISK_FULL, location="/data", free=7)
    assert json.loads(JsonFormatter("worker 2").format(line)) == {
        "time": "2026-01-31T12:00:00.007Z",
        "level": "WARNING",
        "event": "disk.full",
        "logger": "kqueue.server",
        "message": "/data is full",
        "process": "worker 2",
        "fields": {"location": "/data", "free": 7},
    }


def test_json_of_a_library_has_no_event() -> None:
    document = json.loads(JsonFormatter().format(record("lost %s", "it")))
    assert document.keys() == {"time", "level", "event", "logger", "message"}
    assert document["event"] is None


def test_json_has_the_traceback() -> None:
    document = json.loads(JsonFormatter().format(record("failed", exc_info=raised("bad"))))
    assert document["exception"].startswith("Traceback")
    assert document["exception"].endswith("ValueError: bad")


@for_each("text", [HOSTILE, "\ud800", "\x00", "%s %d", "}"])
def test_hostile_names_stay_one_object_on_one_line(text: str) -> None:
    line = record("group %s", text, event=events.GROUP_LIMIT_REACHED, problem=text, exc_info=raised(text))
    written = JsonFormatter().format(line)
    assert written.isascii()
    assert written.isprintable()
    document = json.loads(written)
    assert (document["event"], document["fields"]) == ("group.limit-reached", {"problem": text})


def test_a_text_of_a_library_that_does_not_fit_its_arguments_is_one_object() -> None:
    document = json.loads(JsonFormatter().format(record("%d of %d", "many")))
    assert document["message"].startswith("%d of %d (its arguments do not fit: ")


def test_lines_wait_until_their_form_is_known(output: LogOutput) -> None:
    output.handle(record("setting %s is left out", "a.b"))
    assert lines(output) == []
    output.use("json")
    assert [json.loads(line)["message"] for line in lines(output)] == ["setting a.b is left out"]
    output.handle(record("then"))
    assert len(lines(output)) == 2


@for_each("form", [None, "plain", "xml"])
def test_another_form_is_for_people(form: str | None, output: LogOutput) -> None:
    output.use(form)
    output.handle(record("it stops"))
    assert lines(output)[0].endswith("WARNING it stops")


def test_the_form_may_change_once_settings_are_resolved(output: LogOutput) -> None:
    output.use("${env:FORM}")
    output.use("json")
    output.handle(record("it stops"))
    assert json.loads(lines(output)[0])["message"] == "it stops"


def test_warnings_of_python_are_json_too(output: LogOutput) -> None:
    output.use("json")
    root = logging.getLogger()
    root.addHandler(output)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            logging.captureWarnings(True)
            warnings.warn("old", DeprecationWarning, stacklevel=1)
    finally:
        root.removeHandler(output)
    assert json.loads(lines(output)[0])["logger"] == "py.warnings"


def test_lines_of_clients_are_bounded_and_counted_before_the_next_line(output: LogOutput) -> None:
    output.use(None)
    for _ in range(LINES_MAX + 1234):
        output.handle(record("lost", event=events.CONNECTION_LOST))
    later = record("stopped", event=events.BROKER_STOPPED)
    later.created += 60
    output.handle(later)
    *first, summary, last = lines(output)
    assert len(first) == LINES_MAX
    assert summary.endswith("WARNING connection.lost: 1,234 more lines were left out within a minute")
    assert last.endswith("stopped")


def test_the_end_counts_what_was_left_out(output: LogOutput) -> None:
    output.use("json")
    for _ in range(LINES_MAX + 1):
        output.handle(record("lost", event=events.CONNECTION_LOST))
    output.close()
    assert json.loads(lines(output)[-1])["fields"] == {"of": "connection.lost", "lines": 1}


def test_lines_are_written_at_the_end_if_settings_can_not_be_read(output: LogOutput) -> None:
    output.handle(record("setting %s is left out", "a.b"))
    output.close()
    assert lines(output)[0].endswith("WARNING setting a.b is left out")


def test_the_given_form_is_that_of_the_settings() -> None:
    assert given_form({}) is None
    assert given_form({LOG_FORMAT: SourcedValue("json", "--set")}) == "json"
