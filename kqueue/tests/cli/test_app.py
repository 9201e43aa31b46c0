from __future__ import annotations

import logging

import click
from click.testing import CliRunner

from kqueue import __version__
from kqueue.cli.app import COMMANDS, _set_up_logging, kqueue
from kqueue.tests.tables import for_each


def test_version_option() -> None:
    assert CliRunner().invoke(kqueue, ["--version"]).output == f"kqueue {__version__}\n"


def test_without_arguments_it_explains_itself() -> None:
    result = CliRunner().invoke(kqueue, [])
    assert "Usage: kqueue" in result.output


@for_each("name", COMMANDS)
def test_every_command_loads_and_teaches(name: str) -> None:
    command = COMMANDS[name].load()
    assert isinstance(command, click.Command)
    assert command.name == name
    for flag in ("-h", "--help"):
        result = CliRunner().invoke(kqueue, [name, flag])
        assert result.exit_code == 0
        assert f"Usage: kqueue {name}" in result.output
    if name != "version":
        assert f"    kqueue {name}" in result.output, "an example"


def test_client_libraries_are_quiet_unless_asked() -> None:
    _set_up_logging(0)
    assert not logging.getLogger("kafka").propagate
    _set_up_logging(1)
    assert logging.getLogger("kafka").propagate
    assert logging.getLogger("kafka").level == logging.INFO
    _set_up_logging(2)
    assert logging.getLogger("aiokafka").level == logging.DEBUG
