"""Rules that hold for every command: help, options, output."""

from __future__ import annotations

import inspect
import re
import shlex
from collections.abc import Iterator

import click

from kqueue.cli.app import kqueue
from kqueue.tests.cli.command_tree import client_commands, commands
from kqueue.tests.tables import for_each

COMMANDS = commands()
CLIENT_COMMANDS = client_commands()
SHOWING = re.compile(r".* (list|show|describe|describe-producers|info|apis|brokers|verify|settings|version|audit)\Z")
OWN_WAIT = ("kqueue collect", "kqueue cluster wait", "kqueue console", "kqueue plugins list")
"""Commands with their own rule for a broker that does not answer; their help says it."""


REDIRECTION = re.compile(r" [<>] \S+")
ASSIGNMENTS = re.compile(r"^(\w+=\S+ )+")


def example_lines(command: click.Command) -> list[str]:
    """Return the lines of a command's help that are not wrapped."""
    paragraphs = f"{inspect.cleandoc(command.help or '')}\n\n{command.epilog or ''}".split("\n\n")
    return [line.strip() for one in paragraphs if one.startswith("\b") for line in one.splitlines()[1:]]


def commands_in(line: str) -> Iterator[list[str]]:
    """Yield the words of each `kqueue` in a line for a shell, without redirections."""
    for part in REDIRECTION.sub("", line).split(" | "):
        command = ASSIGNMENTS.sub("", part.strip())
        if command.startswith("kqueue"):
            yield shlex.split(command)[1:]


def options_of(command: click.Command) -> dict[str, tuple[str, ...]]:
    return {parameter.name or "": tuple(parameter.opts) for parameter in command.params}


@for_each("words", COMMANDS)
def test_help_has_an_example_of_the_command_itself(words: str) -> None:
    command = COMMANDS[words]
    examples = example_lines(command)
    assert any(re.search(rf"(?:^|[|;&] ?|\w=\S+ ){re.escape(words)}\b", line) for line in examples), command.help


def unparsed(arguments: list[str]) -> list[str]:
    """Return the arguments that the command they name does not take; an unknown option raises."""
    command: click.Command = kqueue
    context: click.Context | None = None
    name: str | None = "kqueue"
    while isinstance(command, click.Group):
        context = command.make_context(
            name, arguments, parent=context, resilient_parsing=True, help_option_names=["-h", "--help"]
        )
        arguments = [*context._protected_args, *context.args]
        if not arguments:
            return []
        name, subcommand, arguments = command.resolve_command(context, arguments)
        assert subcommand is not None
        command = subcommand
    leaf = click.Context(command, parent=context, help_option_names=["-h", "--help"])
    return command.make_parser(leaf).parse_args(arguments)[1]


@for_each("words", COMMANDS)
def test_examples_of_help_work_when_they_are_pasted(words: str) -> None:
    for line in example_lines(COMMANDS[words]):
        for arguments in commands_in(line):
            assert unparsed(arguments) == [], line


@for_each("words", CLIENT_COMMANDS)
def test_client_commands_have_the_same_options_of_the_connection(words: str) -> None:
    options = options_of(CLIENT_COMMANDS[words])
    assert options["bootstrap"] == ("-b", "--bootstrap-server")
    assert options["profile"] == ("--profile",)
    assert options["command_config"] == ("--command-config",)
    assert ("connect_timeout_s" in options) == (words not in OWN_WAIT)


@for_each("words", [words for words in COMMANDS if SHOWING.match(words)])
def test_commands_that_print_data_print_json(words: str) -> None:
    assert "-o" in options_of(COMMANDS[words])["as_json"]


@for_each("words", CLIENT_COMMANDS)
def test_names_of_topics_and_groups_are_completed(words: str) -> None:
    for parameter in CLIENT_COMMANDS[words].params:
        names = {parameter.name, *(option.lstrip("-") for option in parameter.opts)}
        is_name = names & {"topic", "topics", "group", "partition_texts"} or (
            words.startswith(("kqueue topics", "kqueue groups")) and names & {"names", "name"}
        )
        if is_name and not words.startswith(("kqueue acls", "kqueue topics create", "kqueue quotas")):
            assert parameter._custom_shell_complete is not None, parameter.name
