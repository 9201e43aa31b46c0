"""docs/reference/commands.md has the help of every command.

`python -m kqueue.tests.docs.test_commands` writes it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import click

from kqueue.cli.app import kqueue as root
from kqueue.cli.lazy import LazyGroup
from kqueue.tests.doc_pages import Page
from kqueue.tests.source_tree import ROOT

PAGE = Page("docs/reference/commands.md")
WIDTH = 100
"""Columns of the help."""
HEAD = """\
# Commands

Derived from the code: `python -m kqueue.tests.docs.test_commands` writes this page.

The help of every command, as `kqueue COMMAND --help` prints it. [The command line](../command-line.md) has what they
share: profiles of clusters, JSON output, exit statuses, waiting for a broker, completion in shells.
"""


def commands(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield a command and those below it, in the order of the help, without those of plugins."""
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        names = list(command.table) if isinstance(command, LazyGroup) else command.list_commands(context)
        for name in names:
            below = command.get_command(context, name)
            if below is not None and not below.hidden:
                yield from commands(below, (*path, name))


def help_of(path: tuple[str, ...]) -> str:
    """Return what `--help` prints in a terminal of 100 columns."""
    parent, command = None, root
    for name in path:
        if parent is not None:
            found = command.get_command(parent, name)
            assert found is not None
            command = found
        parent = click.Context(
            command, parent, info_name=name, terminal_width=WIDTH, max_content_width=WIDTH, **command.context_settings
        )
    assert parent is not None
    return "\n".join(row.rstrip() for row in command.get_help(parent).splitlines())


def page() -> str:
    paths = [path for path, _ in commands(root, ("kqueue",))]
    listed = [f"- [`{' '.join(path)}`](#{'-'.join(path)})\n" for path in paths if len(path) == 2]
    sections = [
        f"\n{'#' * min(len(path) + 1, 4)} `{' '.join(path)}`\n\n```text\n{help_of(path)}\n```\n" for path in paths
    ]
    return f"{HEAD}\n{''.join(listed)}{''.join(sections)}"


def test_the_page_is_that_of_the_code() -> None:
    """Lines may break elsewhere: other versions of click do so."""
    assert PAGE.text.split() == page().split(), "run python -m kqueue.tests.docs.test_commands"


def test_every_command_has_a_heading() -> None:
    headings = re.findall(r"^#+ `(kqueue.*)`$", PAGE.text, re.MULTILINE)
    assert headings == [" ".join(path) for path, _ in commands(root, ("kqueue",))]
    assert {"kqueue serve", "kqueue topics create", "kqueue log verify", "kqueue pipeline ingest"} <= set(headings)


def test_no_line_of_a_help_is_wider_than_its_block() -> None:
    assert max(map(len, "\n".join(PAGE.blocks("text")).splitlines())) <= WIDTH


if __name__ == "__main__":
    (ROOT / PAGE.name).write_text(page(), encoding="utf-8")
