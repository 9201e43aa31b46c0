"""docs/reference/error-codes.md is made of the table in the code, which has every error that is
answered.

`python -m kqueue.tests.docs.test_error_codes` writes it.
"""

from __future__ import annotations

import ast
import re

import click

from kqueue.base.log_event import LogEvent
from kqueue.cli.app import kqueue as root
from kqueue.config.catalog import CATALOG
from kqueue.tests.doc_pages import Page, run_line
from kqueue.tests.log_lines import CONSTANTS
from kqueue.tests.source_tree import PACKAGE, ROOT
from kqueue.tests.tables import for_each
from kqueue.wire.error_codes import RETRIABLE, ErrorCode
from kqueue.wire.error_guide import ERROR_ADVICE

PAGE = Page("docs/reference/error-codes.md")
HEAD = """\
# Error codes

Derived from the code: `python -m kqueue.tests.docs.test_error_codes` writes this page.

Every error that kqueue answers with. Names, numbers and which of them are retriable are Kafka's; after a retriable
error clients send the request again by themselves, so that a program meets it only if it lasts. Java's clients name
errors by their exceptions (`NotLeaderOrFollowerException`), kafka-python too (`NotLeaderOrFollowerError`). The command
finds an error by each of these names, or by its number:

```sh
kqueue errors NotLeaderOrFollowerException
kqueue errors 19
```

| error | number | retriable | when | what to do |
|---|---|---|---|---|
"""
CLIENT_SETTINGS = {
    "auto.offset.reset",
    "group.id",
    "group.instance.id",
    "group.remote.assignor",
    "max.poll.interval.ms",
    "request.timeout.ms",
    "sasl.mechanism",
    "security.protocol",
    "session.timeout.ms",
    "transaction.timeout.ms",
}
"""Settings of Kafka's clients that the table names."""
TEXTS = [(code, text) for code, advice in ERROR_ADVICE.items() for text in advice]


def page() -> str:
    rows = [
        f"| `{code.name}` | {code.value} | {'yes' if code in RETRIABLE else ''} | {advice.when} | {advice.action} |\n"
        for code, advice in ERROR_ADVICE.items()
    ]
    return HEAD + "".join(rows)


def answered() -> set[ErrorCode]:
    """Return the errors that the code of the APIs names."""
    names = {
        node.attr
        for path in sorted((PACKAGE / "api").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr in ErrorCode.__members__
    }
    return {ErrorCode[name] for name in names} - {ErrorCode.NONE}


def test_the_page_is_that_of_the_code() -> None:
    assert PAGE.text == page(), "run python -m kqueue.tests.docs.test_error_codes"


def test_every_error_that_is_answered_has_a_row_and_no_other() -> None:
    assert set(ERROR_ADVICE) == answered()


def test_rows_are_ordered_by_number() -> None:
    assert list(ERROR_ADVICE) == sorted(ERROR_ADVICE)


@for_each("code,text", TEXTS)
def test_commands_in_a_row_exist(code: ErrorCode, text: str) -> None:
    for line in re.findall(r"`kqueue ([^`]+)`", text):
        command: click.Command | None = root
        for word in line.split():
            if word.startswith("--"):
                assert command is not None
                assert word in {option for each in command.params for option in each.opts}, line
            elif isinstance(command, click.Group):
                command = command.get_command(click.Context(command), word)
                assert command is not None, line


@for_each("code,text", TEXTS)
def test_settings_and_events_in_a_row_exist(code: ErrorCode, text: str) -> None:
    events: set[str] = {event.name for event in CONSTANTS.values() if isinstance(event, LogEvent)}
    known = {*CATALOG.broker, *CATALOG.topic, *CLIENT_SETTINGS, *events}
    assert set(re.findall(r"`([a-z-]+(?:\.[a-z-]+)+)`", text)) <= known


def test_the_commands_run() -> None:
    by_name, by_number = PAGE.commands()
    assert run_line(by_name, ROOT).startswith("NOT_LEADER_OR_FOLLOWER (6, retriable)")
    assert run_line(by_number, ROOT).startswith("NOT_ENOUGH_REPLICAS (19, retriable)")


if __name__ == "__main__":
    (ROOT / PAGE.name).write_text(page(), encoding="utf-8")
