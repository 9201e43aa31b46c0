"""Rules that hold for every command: help, options, output."""

from __future__ import annotations

import re

import click
import pytest

from kqueue.tests.cli.command_tree import client_commands, commands

COMMANDS = commands()
CLIENT_COMMANDS = client_commands()
SHOWING = re.compile(r".* (list|show|describe|describe-producers|info|apis|brokers|verify|settings|version|audit)\Z")
OWN_WAIT = ("kqueue collect", "kqueue cluster wait", "kqueue plugins list")
"""Commands with their own rule for a broker that does not answer; their help says it."""


def options_of(command: click.Command) -> dict[str, tuple[str, ...]]:
    return {parameter.name or "": tuple(parameter.opts) for parameter in command.params}


@pytest.mark.parametrize("words", COMMANDS)
def test_help_has_an_example_of_the_command_itself(words: str) -> None:
    command = COMMANDS[words]
    text = f"{command.help or ''}\n{command.epilog or ''}"
    examples = [line.strip() for line in text.splitlines() if line.startswith("  ")]
    assert any(re.search(rf"(?:^|[|;&] ?|\w=\S+ ){re.escape(words)}\b", line) for line in examples), text


@pytest.mark.parametrize("words", CLIENT_COMMANDS)
def test_client_commands_have_the_same_options_of_the_connection(words: str) -> None:
    options = options_of(CLIENT_COMMANDS[words])
    assert options["bootstrap"] == ("-b", "--bootstrap-server")
    assert options["profile"] == ("--profile",)
    assert options["command_config"] == ("--command-config",)
    assert ("connect_timeout_s" in options) == (words not in OWN_WAIT)


@pytest.mark.parametrize("words", [words for words in COMMANDS if SHOWING.match(words)])
def test_commands_that_print_data_print_json(words: str) -> None:
    assert "-o" in options_of(COMMANDS[words])["as_json"]


@pytest.mark.parametrize("words", CLIENT_COMMANDS)
def test_names_of_topics_and_groups_are_completed(words: str) -> None:
    for parameter in CLIENT_COMMANDS[words].params:
        names = {parameter.name, *(option.lstrip("-") for option in parameter.opts)}
        is_name = names & {"topic", "topics", "group", "partition_texts"} or (
            words.startswith(("kqueue topics", "kqueue groups")) and names & {"names", "name"}
        )
        if is_name and not words.startswith(("kqueue acls", "kqueue topics create", "kqueue quotas")):
            assert parameter._custom_shell_complete is not None, parameter.name
