from __future__ import annotations

import io
from collections.abc import Sequence
from typing import cast

import pytest

from kqueue.cli.escaping_console import EscapingConsole
from kqueue.cli.top.feed import Feed
from kqueue.cli.top.live import run
from kqueue.cli.top.picture import Picture
from kqueue.tests.cli.top.pictures import picture


class ScriptedKeys:
    """Keys of a list, one at each read; then the terminal has ended."""

    def __init__(self, *keys: str) -> None:
        self.keys = list(keys)
        self.reads = 0
        self.has_ended = False

    def read(self, wait_s: float) -> Sequence[str]:
        self.reads += 1
        if not self.keys:
            self.has_ended = True
            return []
        key = self.keys.pop(0)
        return [key] if key else []


class StillFeed:
    """A feed that reads nothing."""

    def __init__(self, shown: Picture) -> None:
        self.picture = shown
        self.failure: BaseException | None = None


def screen_after(feed: StillFeed, keys: ScriptedKeys, stops_after: int = 1_000) -> str:
    console = EscapingConsole(file=io.StringIO(), force_terminal=True, width=100, height=30, color_system=None)
    run(cast("Feed", feed), keys, console, 2.0, lambda: keys.reads >= stops_after)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_screen_ends_by_q() -> None:
    keys = ScriptedKeys("3", "q", "never read")
    text = screen_after(StillFeed(picture()), keys)
    assert "mailer" in text
    assert (text.count("\x1b[?1049h"), text.count("\x1b[?1049l")) == (1, 1)
    assert "\x1b[31m" not in text, "it is in the name of a group"
    assert keys.keys == ["never read"]


def test_the_screen_ends_with_the_terminal_and_when_it_is_stopped() -> None:
    screen_after(StillFeed(picture()), ScriptedKeys())
    keys = ScriptedKeys("", "", "", "")
    screen_after(StillFeed(picture()), keys, stops_after=2)
    assert keys.reads == 2


def test_a_paused_screen_keeps_its_picture() -> None:
    feed = StillFeed(picture())

    class Changing(ScriptedKeys):
        def read(self, wait_s: float) -> Sequence[str]:
            if self.reads == 1:
                feed.picture = Picture("other:1")
            return super().read(wait_s)

    text = screen_after(feed, Changing(" ", "?", "x", "q"))
    assert "other:1" not in text
    assert "PAUSED" in text
    assert "other:1" in screen_after(StillFeed(Picture("other:1")), ScriptedKeys("q"))


def test_a_fault_of_the_feed_ends_the_screen() -> None:
    feed = StillFeed(picture())
    feed.failure = ZeroDivisionError("a fault")
    with pytest.raises(ZeroDivisionError):
        screen_after(feed, ScriptedKeys("", ""))
