"""The bar is shown on a terminal only, and never in the output."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable
from typing import Any

import pytest

from kqueue.cli.log.progress_bar import count_bar, progress_bar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(
    monkeypatch: pytest.MonkeyPatch,
    stream: io.StringIO,
    done: int = 2_500_000,
    total: int = 5_000_000,
    bar: Callable[[str], Any] = progress_bar,
) -> str:
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(sys, "stderr", stream)
    with bar("Checking [all]") as progress:
        progress(done, total)
    return stream.getvalue()


def test_nothing_is_shown_without_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert shown(monkeypatch, io.StringIO()) == ""
    assert capsys.readouterr().out == ""


def test_terminal_shows_progress_and_is_cleared_afterwards(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = shown(monkeypatch, Terminal())
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text)
    assert "Checking [all]" in plain
    assert "2.5/5.0 MB" in plain
    assert text.endswith("\x1b[2K"), "the progress bar is cleared"
    assert capsys.readouterr().out == ""


def test_bar_of_a_number_of_things_shows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown(monkeypatch, Terminal(), 3, 12, count_bar))
    assert " 3/12" in plain


def test_an_error_passes_through_and_leaves_the_cursor(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", terminal)
    with pytest.raises(RuntimeError), progress_bar("Checking"):
        raise RuntimeError
    assert terminal.getvalue().rindex("\x1b[?25h") > terminal.getvalue().rindex("\x1b[?25l")
