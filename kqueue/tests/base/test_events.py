from __future__ import annotations

import re
from logging import ERROR, INFO, WARNING
from pathlib import Path

import click
import pytest

from kqueue.base.events import EVENTS
from kqueue.cli.app import kqueue
from kqueue.config.catalog import CATALOG
from kqueue.tests import log_lines
from kqueue.tests.log_lines import CONSTANTS, lines_of, lines_of_package
from kqueue.tests.source_tree import SourceFile

COMMAND = re.compile(r"`kqueue ([a-z][^`]*)`")
OWN_SETTING = re.compile(r"`(kqueue(?:\.[a-z]+)+)`")


def test_each_line_of_info_and_above_names_an_event() -> None:
    assert lines_of_package().unnamed == []


def test_each_event_is_used_by_a_line() -> None:
    assert CONSTANTS.keys() - lines_of_package().fields.keys() == set()


def test_each_text_has_a_placeholder_for_each_field() -> None:
    assert lines_of_package().uneven == []


def test_names_are_unique_and_say_subject_and_what_happened() -> None:
    assert len({event.name for event in EVENTS}) == len(EVENTS) == len(CONSTANTS)
    for event in EVENTS:
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*(\.[a-z]+(-[a-z]+)*)?", event.name)


def test_each_event_says_what_it_means_and_errors_what_to_do() -> None:
    for event in EVENTS:
        assert event.level in (INFO, WARNING, ERROR), event
        assert event.meaning.rstrip(")").endswith(".") or event.meaning.endswith(")."), event
        assert event.action or event.level < ERROR, event
        assert not event.is_limited or event.level < ERROR, event
        assert not {"|", "\n"} & set(event.meaning + event.action), event


def test_commands_and_settings_in_the_table_are_there() -> None:
    for event in EVENTS:
        for text in COMMAND.findall(event.meaning + event.action):
            words = text.split()
            group: click.Command = kqueue
            for word in words:
                if not isinstance(group, click.Group):
                    break
                command = group.get_command(click.Context(group), word)
                assert command is not None, (event.name, text)
                group = command
            options = {option for each in group.params for option in (*each.opts, *each.secondary_opts)}
            assert {word for word in words if word.startswith("--")} <= options, (event.name, text)
        for name in OWN_SETTING.findall(event.meaning + event.action):
            assert CATALOG.broker.get(name), (event.name, name)


@pytest.mark.parametrize(
    "line",
    [
        'logger.info("started")',
        'logger.warning("slow: %s", 1)',
        'logger.log(logging.INFO, "started")',
        'logger.exception("failed", extra={"event": "made.up"})',
        'logging.getLogger(__name__).error("failed")',
        'logging.warning("failed")',
    ],
)
def test_a_line_without_an_event_is_found(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert lines_in(f"def f():\n    {line}\n", tmp_path, monkeypatch).unnamed == ["module.py:4"]


def test_a_field_without_a_placeholder_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = lines_in('events.DISK_FULL.log(logger, "%s is full", a=1, b=2)\n', tmp_path, monkeypatch)
    assert lines.uneven == ["module.py:3"]
    assert lines.fields == {"DISK_FULL": ["a", "b"]}


def test_an_event_that_is_an_argument_has_the_fields_of_the_function(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = 'def close(event):\n    event.log(logger, "%s", reason=1)\nclose_it.close(event=events.DISK_FULL)\n'
    assert lines_in(text, tmp_path, monkeypatch).fields == {"DISK_FULL": ["reason"]}


def lines_in(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> log_lines.Lines:
    (folder / "module.py").write_text(f"import logging\nlogger = logging.getLogger('kqueue')\n{text}")
    monkeypatch.setattr("kqueue.tests.source_tree.ROOT", folder)
    return lines_of([SourceFile(Path("module.py"))])
