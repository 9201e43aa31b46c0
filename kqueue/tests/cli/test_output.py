from __future__ import annotations

import re

import pytest

from kqueue.cli.output import PIPE_WIDTH, Counter, columns, new_console, table_console


def test_columns_are_aligned_and_end_without_blanks() -> None:
    assert columns(("A", "LONG"), [("xyz", 1), ("", 22)]) == "A    LONG\nxyz  1\n     22"


def test_a_row_is_one_line_whatever_its_cells_hold() -> None:
    rows = [("g\nUser:mallory  ALLOW", 1), ("t\tu\x1b[31m\u202e\r", 22)]
    assert columns(("NAME", "LAG"), rows).splitlines()[1:] == [
        r"g\nUser:mallory  ALLOW  1",
        r"t\tu\x1b[31m\u202e\r    22",
    ]


def test_columns_without_rows_are_the_titles() -> None:
    assert columns(("A", "B"), []) == "A  B"


def test_tables_are_as_wide_as_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "91")
    monkeypatch.setenv("TERM", "xterm")
    assert table_console().width == PIPE_WIDTH, "nobody sees how wide it is"
    monkeypatch.setenv("FORCE_COLOR", "1")  # what rich takes for a terminal
    assert table_console().width == 91


@pytest.mark.parametrize("terminal", [False, True])
def test_text_that_looks_like_markup_is_printed_as_it_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, terminal: bool
) -> None:
    from rich.table import Table

    if terminal:
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setenv("COLUMNS", "200")
    table = Table("NAME", title="[red]title", caption=":warning:")
    table.add_column("[bold]HEAD")
    table.add_row("[bold]orders[/]", ":smile: [/x]")
    new_console(width=100).print(table, "[dim]line", "[/wrong]")
    printed = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    for text in ("[red]title", ":warning:", "[bold]HEAD", "[bold]orders[/]", ":smile: [/x]", "[dim]line", "[/wrong]"):
        assert text in printed


def test_a_hidden_counter_writes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with Counter("records", shown=False) as counter:
        counter.show(5)
    assert capsys.readouterr() == ("", "")


def test_a_counter_writes_now_and_then_and_clears_its_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = 100.0
    monkeypatch.setattr("kqueue.cli.output.monotonic_s", lambda: now_s)
    with Counter("records", shown=True) as counter:
        counter.show(1)
        counter.show(2)
        now_s += Counter.EVERY_S
        counter.show(3000)
    assert (
        capsys.readouterr().err == "\r1 records \r3,000 records \r"
    )  # the sequence that clears is left out off a terminal
