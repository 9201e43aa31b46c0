"""What the keys have chosen: a state machine without a terminal.

`press(view, key)` returns the next view. Keys have the names that `keyboard.KeyDecoder` gives them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from kqueue.cli.top.sections import SECTIONS, TOPICS, ScreenSection

FILTER_CHARACTERS = 80
PAGE_ROWS = 10
ROWS_MAX = 1 << 31
NEXT_COLUMN, PREVIOUS_COLUMN = (">", "right", "s"), ("<", "left", "S")
STEPS = {"up": -1, "k": -1, "down": 1, "j": 1, "pageup": -PAGE_ROWS, "pagedown": PAGE_ROWS}


@dataclass(frozen=True, slots=True)
class SectionView:
    """What is chosen of one section. `offset`: the first row that is shown."""

    sorted_by: int
    descending: bool
    text: str = ""
    offset: int = 0


@dataclass(frozen=True, slots=True)
class View:
    """What is chosen of the screen.

    Attributes:
        focus: index of the section that the keys are about.
        edits: the filter is being written: keys are its characters.
        is_paused: the picture stays as it is.
        shows_internal: topics such as __consumer_offsets are shown.
        has_quit: the screen is to end.
    """

    focus: int
    sections: tuple[SectionView, ...]
    edits: bool = False
    is_paused: bool = False
    shows_help: bool = False
    shows_internal: bool = False
    has_quit: bool = False

    @property
    def focused(self) -> SectionView:
        """What is chosen of the section that the keys are about."""
        return self.sections[self.focus]

    @property
    def section(self) -> ScreenSection:
        """The section that the keys are about."""
        return SECTIONS[self.focus]


def first_view() -> View:
    """Return the view that the screen begins with."""
    return View(
        SECTIONS.index(TOPICS),
        tuple(SectionView(one.sorted_by, not one.columns[one.sorted_by].is_text) for one in SECTIONS),
    )


def press(view: View, key: str) -> View:
    """Return the view after a key; an unknown key changes nothing."""
    if view.edits:
        return _edit(view, key)
    if view.shows_help:
        return replace(view, shows_help=False, has_quit=key == "q")
    if key == "q":
        return replace(view, has_quit=True)
    if key in ("?", "h"):
        return replace(view, shows_help=True)
    if key == " ":
        return replace(view, is_paused=not view.is_paused)
    if key == "i":
        return replace(view, shows_internal=not view.shows_internal)
    if key == "/":
        return replace(view, edits=True)
    if key == "tab":
        return replace(view, focus=(view.focus + 1) % len(SECTIONS))
    if key == "shift-tab":
        return replace(view, focus=(view.focus - 1) % len(SECTIONS))
    if key.isascii() and key.isdigit() and 1 <= int(key) <= len(SECTIONS):
        return replace(view, focus=int(key) - 1)
    return _focused(view, key)


def within(view: View, row_count: int) -> View:
    """Return the view with its first row within those that the focused section has."""
    chosen = view.focused
    return _with(view, replace(chosen, offset=min(chosen.offset, max(0, row_count - 1))))


def _focused(view: View, key: str) -> View:
    """Return the view after a key that is about the focused section."""
    chosen = view.focused
    if key in NEXT_COLUMN:
        return _with(view, _sorted(view.section, chosen, 1))
    if key in PREVIOUS_COLUMN:
        return _with(view, _sorted(view.section, chosen, -1))
    if key == "r":
        return _with(view, replace(chosen, descending=not chosen.descending, offset=0))
    if key == "escape":
        return _with(view, replace(chosen, text="", offset=0))
    if key in STEPS:
        return _with(view, replace(chosen, offset=max(0, chosen.offset + STEPS[key])))
    if key in ("home", "g"):
        return _with(view, replace(chosen, offset=0))
    if key in ("end", "G"):
        return _with(view, replace(chosen, offset=ROWS_MAX))
    return view


def _sorted(section: ScreenSection, chosen: SectionView, step: int) -> SectionView:
    column = (chosen.sorted_by + step) % len(section.columns)
    return replace(chosen, sorted_by=column, descending=not section.columns[column].is_text, offset=0)


def _edit(view: View, key: str) -> View:
    chosen = view.focused
    if key == "enter":
        return replace(view, edits=False)
    if key == "escape":
        return _with(replace(view, edits=False), replace(chosen, text="", offset=0))
    if key == "backspace":
        return _with(view, replace(chosen, text=chosen.text[:-1], offset=0))
    if len(key) == 1 and key.isprintable() and len(chosen.text) < FILTER_CHARACTERS:
        return _with(view, replace(chosen, text=chosen.text + key, offset=0))
    return view


def _with(view: View, chosen: SectionView) -> View:
    """Return the view with another choice for the focused section."""
    return replace(view, sections=(*view.sections[: view.focus], chosen, *view.sections[view.focus + 1 :]))
