"""Reads what the files of `deploy/` have kqueue do: commands as click parses them, settings as a
broker does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from kqueue.base.config import Config
from kqueue.cli.app import kqueue
from kqueue.config.exposure import check_exposure
from kqueue.config.listeners import parse_listeners
from kqueue.config.metrics_listener import metrics_listener
from kqueue.config.properties import make_config, read_values

CHECKOUT = Path(__file__).parents[2]
DEPLOY = CHECKOUT / "deploy"


def parsed(words: Sequence[str]) -> click.Context:
    """Return the context of the command that the words after `kqueue` name. Raises UsageError."""
    command: click.Command = kqueue
    context = command.make_context("kqueue", list(words), help_option_names=["-h", "--help"])
    while isinstance(command, click.Group):
        name, found, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        assert found is not None
        command, context = (
            found,
            found.make_context(name, list(rest), parent=context, help_option_names=["-h", "--help"]),
        )
    return context


def broker_config(file: Path | None, variables: Mapping[str, str]) -> Config:
    """Return the settings of a broker, checked as at its start. Raises SettingError."""
    config = make_config(read_values(file, variables, []))
    check_exposure(config, parse_listeners(config))
    metrics_listener(config)
    return config
