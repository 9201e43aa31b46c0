"""The loop of the live screen: draw, wait for a key, draw again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from rich.console import Console
from rich.live import Live

from kqueue.base.clock import monotonic_s
from kqueue.cli.top.feed import Feed
from kqueue.cli.top.screen import Screen
from kqueue.cli.top.section_table import table_of
from kqueue.cli.top.view import first_view, press, within

TICK_S = 0.1
REDRAW_S = 1.0


class Keys(Protocol):
    """Where keys come from: a `Keyboard`."""

    has_ended: bool

    def read(self, wait_s: float) -> Sequence[str]:
        """Return the keys that were pressed; waits for the first one for `wait_s` seconds."""
        ...


def run(feed: Feed, keys: Keys, console: Console, interval_s: float, is_stopped: Callable[[], bool]) -> None:
    """Show the feed's pictures until `q`, the end of the terminal, or `is_stopped`.

    Raises: what ended the thread of the feed.
    """
    view, picture = first_view(), feed.picture
    with Live(console=console, screen=True, auto_refresh=False, redirect_stdout=False, redirect_stderr=False) as live:
        drawn: object = None
        while not (view.has_quit or keys.has_ended or is_stopped()):
            if feed.failure is not None:
                raise feed.failure
            if not view.is_paused:
                picture = feed.picture
            # once a second too: other programs may have written to the terminal
            state = (id(picture), view, console.size, int(monotonic_s() / REDRAW_S))
            if state != drawn:
                live.update(Screen(picture, view, interval_s), refresh=True)
                drawn = state
            for key in keys.read(TICK_S):
                view = press(view, key)
                table = table_of(view.section, picture, view.focused, internal=view.shows_internal)
                view = within(view, len(table.rows))
