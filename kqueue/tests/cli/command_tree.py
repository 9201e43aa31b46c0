"""All commands of `kqueue`, for tests that hold one rule for each of them."""

from __future__ import annotations

from collections.abc import Iterator

import click

from kqueue.cli.app import kqueue


def commands() -> dict[str, click.Command]:
    """Return every command and group by its words, such as ``kqueue topics list``."""
    return dict(_walk(kqueue, "kqueue"))


def client_commands() -> dict[str, click.Command]:
    """Return the commands that talk to a broker."""
    return {
        words: command
        for words, command in commands().items()
        if any(parameter.name == "bootstrap" for parameter in command.params) and words != "kqueue profile create"
    }


def _walk(command: click.Command, words: str) -> Iterator[tuple[str, click.Command]]:
    yield words, command
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=words)
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            yield from _walk(child, f"{words} {name}")
