"""docs/log-events.md: its table is that of the code, and its commands run.

`python -m kqueue.tests.docs.test_log_events` writes the table.
"""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path

from kqueue.base import events
from kqueue.base.log_event import TEXT_LENGTH_MAX
from kqueue.supervisor.line_limit import LINES_MAX
from kqueue.supervisor.logs import JsonFormatter
from kqueue.tests.doc_pages import Page, run_line, serving
from kqueue.tests.log_lines import CONSTANTS, lines_of_package
from kqueue.tests.source_tree import ROOT

PAGE = Page("docs/log-events.md")
BEGIN, END = "<!-- table of the events -->\n", "<!-- end of the table -->\n"


def table() -> str:
    rows = ["| event | level | meaning | what to do | fields |\n", "|---|---|---|---|---|\n"]
    fields = lines_of_package().fields
    for constant, event in CONSTANTS.items():
        level = logging.getLevelName(event.level) + (", limited" if event.is_limited else "")
        names = ", ".join(f"`{name}`" for name in sorted(fields[constant]))
        rows.append(f"| `{event.name}` | {level} | {event.meaning} | {event.action} | {names} |\n")
    return "".join(rows)


def test_the_table_is_that_of_the_code() -> None:
    assert PAGE.text.partition(BEGIN)[2].partition(END)[0] == table()


def test_the_example_of_json_is_what_is_written() -> None:
    (block,) = PAGE.blocks("json")
    example = json.loads(block)
    record = logging.LogRecord("kqueue.log", logging.WARNING, "", 1, example["message"], (), None)
    record.created = 1_769_860_800.123
    vars(record).update(events.DISK_FULL.extra(**example["fields"]))
    assert json.loads(JsonFormatter().format(record)) == example


def test_keys_fields_and_limits_of_the_text_are_those_of_the_code() -> None:
    named = set(re.findall(r"`(\w+)`", " ".join(re.findall(r"^\| (`.*?) \|", PAGE.text, re.MULTILINE))))
    written = {"time", "level", "event", "logger", "message", "process", "fields", "exception", "stack"}
    assert written <= named
    of_requests = lines_of_package().fields["REQUEST_SLOW"]
    assert "took_ms" in of_requests
    assert set(of_requests) <= named
    assert f"cut at {TEXT_LENGTH_MAX} characters" in PAGE.text
    assert f"{LINES_MAX} lines a minute" in PAGE.text


def test_the_commands_run_beside_a_broker_that_writes_json(tmp_path: Path) -> None:
    serve, *commands = PAGE.commands()
    with serving(serve, tmp_path) as address:
        for line in commands:
            run_line(line, tmp_path, KQUEUE_BOOTSTRAP=address)


if __name__ == "__main__":
    before, _, rest = PAGE.text.partition(BEGIN)
    (ROOT / PAGE.name).write_text(before + BEGIN + table() + END + rest.partition(END)[2], encoding="utf-8")
