from __future__ import annotations

import io

import pytest
from rich.table import Table

from kqueue.cli.escaping_console import EscapingConsole

HOSTILE = "a\x1b]0;title\x07\x9b2Jb"
SHOWN = r"a\x1b]0;title\x07\u009b2Jb"


def printed(renderable: object, *, is_terminal: bool) -> str:
    screen = io.StringIO()
    console = EscapingConsole(file=screen, force_terminal=is_terminal, width=60, color_system="standard")
    console.print(renderable, markup=False, highlight=False)
    return screen.getvalue()


def test_control_characters_of_a_text_are_escaped_on_a_terminal() -> None:
    assert printed(HOSTILE, is_terminal=True) == SHOWN + "\n"


def test_control_characters_of_a_cell_are_escaped_within_its_column() -> None:
    table = Table("Name", show_header=False)
    table.add_row(HOSTILE)
    top, row, bottom = printed(table, is_terminal=True).splitlines()
    assert SHOWN in row
    assert len(top) == len(row) == len(bottom), "the width counts the escapes"


def test_sequences_of_rich_are_not_escaped_on_a_terminal() -> None:
    screen = io.StringIO()
    console = EscapingConsole(file=screen, force_terminal=True, width=60, color_system="standard")
    console.print("b", style="bold")
    assert screen.getvalue() == "\x1b[1mb\x1b[0m\n"


def test_text_is_as_it_is_without_a_terminal() -> None:
    assert printed(HOSTILE, is_terminal=False) == HOSTILE.replace("\x07", "") + "\n", "rich itself drops the bell"


def test_broken_pipe_is_raised() -> None:
    class Closed(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        EscapingConsole(file=Closed(), width=60).print("text")
