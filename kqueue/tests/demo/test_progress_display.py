from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from kqueue.demo.progress_display import ProgressDisplay


def shown(*, terminal: bool) -> str:
    out = io.StringIO()
    display = ProgressDisplay(Console(file=out, force_terminal=terminal, width=120))
    with display:
        with display.step("Counting [sheep]", 10) as step:
            step.show(4)
            step.show(99)
        assert step.seconds > 0
    display.table("Result", [("Sheep", "10", "all [white]")])
    return out.getvalue()


def test_without_a_terminal_there_are_plain_lines() -> None:
    text = shown(terminal=False)
    assert re.match(r"Counting \[sheep\]: done in 0\.0 s\n", text)
    assert "\x1b" not in text
    assert re.search(r"Sheep .* 10 .* all \[white\]", text)


def test_on_a_terminal_there_is_a_full_bar() -> None:
    text = shown(terminal=True)
    assert "10/10" in text
    assert "Counting [sheep]" in re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text)


def test_a_step_that_fails_is_not_shown_as_done() -> None:
    out = io.StringIO()
    display = ProgressDisplay(Console(file=out, force_terminal=False))
    with pytest.raises(RuntimeError), display, display.step("Falling"):
        raise RuntimeError
    assert out.getvalue() == ""
