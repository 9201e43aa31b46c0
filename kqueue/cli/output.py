"""Output for terminals and pipes: columns, counts, sizes, JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import click

from kqueue.base.clock import monotonic_s
from kqueue.base.terminal import one_line, trusted

if TYPE_CHECKING:
    from rich.console import Console

F = TypeVar("F", bound=Callable[..., Any])
_JSON_FLAG = "kqueue.cli.json"
PIPE_WIDTH = 200  # columns of output that is not a terminal


def output_option(command: F) -> F:
    """Add ``-o/--output text|json`` and ``--json`` to a command, as its argument `as_json`."""

    def note(ctx: click.Context, param: click.Parameter, value: bool) -> None:
        ctx.meta[_JSON_FLAG] = value

    def choose(ctx: click.Context, param: click.Parameter, value: str) -> bool:
        return value == "json" or bool(ctx.meta.get(_JSON_FLAG))

    output = click.option(
        "-o",
        "--output",
        "as_json",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        callback=choose,
        help="Print text for people, or JSON; --json is the same as -o json.",
    )
    flag = click.option("--json", is_flag=True, is_eager=True, expose_value=False, hidden=True, callback=note)
    return output(flag(command))


def print_json(value: object) -> None:
    """Print one JSON document on one line of standard output."""
    click.echo(json.dumps(value, ensure_ascii=False))


def columns(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return left-aligned columns below a line of titles, two spaces apart. Control characters in
    cells are escaped, also for pipes: each row is one line.
    """
    table = [[one_line(str(cell)) for cell in row] for row in (head, *rows)]
    widths = [max(len(row[index]) for row in table) for index in range(len(head))]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table)
    return "\n".join(lines)


def table_console() -> Console:
    """Return the console for tables: as wide as the terminal, or `PIPE_WIDTH`."""
    console = new_console()
    return console if console.is_terminal else new_console(width=PIPE_WIDTH)


def new_console(output: TextIO | None = None, *, width: int | None = None) -> Console:
    """Return a console whose own control sequences reach the terminal, and whose texts' do not.

    A `str` is printed as it is: names of topics may look like rich's markup. Use `Text` for styles.
    Args: output: None: standard output.
    """
    from kqueue.cli.escaping_console import EscapingConsole  # on use: it imports rich

    return EscapingConsole(
        file=trusted(sys.stdout if output is None else output), width=width, markup=False, emoji=False
    )


class Counter:
    """A counter on standard error while a command works; silent unless `shown`."""

    EVERY_S = 0.2

    def __init__(self, noun: str, *, shown: bool) -> None:
        self.noun = noun
        self.shown = shown
        self._next_s = 0.0
        self._written = False

    def __enter__(self) -> Counter:
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._written:
            click.echo("\r\x1b[K", trusted(sys.stderr), nl=False)

    def show(self, count: int) -> None:
        """Show `count`, at most every `EVERY_S` seconds."""
        if not self.shown:
            return
        now_s = monotonic_s()
        if now_s >= self._next_s:
            self._next_s = now_s + self.EVERY_S
            self._written = True
            click.echo(f"\r{count:,} {self.noun} ", trusted(sys.stderr), nl=False)
