from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kqueue.cli.top.sections import SECTIONS
from kqueue.cli.top.view import FILTER_CHARACTERS, SectionView, View, first_view, press, within
from kqueue.tests.tables import for_each

KEYS = [
    "tab",
    "shift-tab",
    "up",
    "pagedown",
    "home",
    "<",
    ">",
    "r",
    "/",
    "escape",
    "enter",
    "backspace",
    " ",
    "?",
    "i",
    "5",
]


def after(*keys: str) -> View:
    view = first_view()
    for key in keys:
        view = press(view, key)
    return view


def test_the_first_view_has_topics_by_rate() -> None:
    view = first_view()
    assert view.section.title == "Topics"
    assert (view.section.columns[view.focused.sorted_by].title, view.focused.descending) == ("RECORDS/S", True)


@for_each(
    "keys, title",
    [
        (["1"], "Brokers"), (["5"], "Disks"), (["9"], "Topics"), (["tab"], "Groups"), (["shift-tab"], "Brokers"),
        (["5", "tab"], "Brokers"), (["1", "shift-tab"], "Disks"), (["²"], "Topics"),
    ],
)  # fmt: skip
def test_digits_and_tab_choose_the_section(keys: list[str], title: str) -> None:
    assert after(*keys).section.title == title


def test_the_column_is_chosen_for_each_section_and_names_begin_with_a() -> None:
    view = after("3", "<", "2", ">", ">")
    groups, topics = view.sections[2], view.sections[1]
    assert (groups.sorted_by, groups.descending) == (2, False)
    assert (topics.sorted_by, topics.descending) == (4, True)
    assert after(*["<"] * len(SECTIONS[1].columns)).focused == first_view().focused
    assert not after("r").focused.descending


def test_the_filter_takes_all_keys_until_enter_and_escape_ends_it() -> None:
    view = after("/", "q", "1", " ", "é", "enter")
    assert (view.focused.text, view.edits, view.has_quit) == ("q1 é", False, False)
    assert press(view, "escape").focused.text == ""
    assert after("/", "a", "b", "backspace").focused.text == "a"
    assert after("/", "a", "escape") == first_view()
    assert after("/", "up", "\x1b", "\x00").focused.text == ""
    assert len(after("/", *["x"] * 200).focused.text) == FILTER_CHARACTERS


def test_rows_are_moved_through_and_sorting_goes_back_to_the_first() -> None:
    assert after("down", "pagedown", "up").focused.offset == 10
    assert after("up").focused.offset == 0
    assert after("pagedown", "g").focused.offset == after("pagedown", ">").focused.offset == 0


def test_the_first_row_stays_within_the_rows() -> None:
    assert within(after("G"), 30).focused.offset == 29
    assert press(within(after("end"), 30), "up").focused.offset == 28
    assert within(after("down"), 0).focused.offset == 0


def test_help_is_left_by_any_key_and_pause_and_internal_topics_are_switched() -> None:
    assert after("?").shows_help
    assert after("?", "1") == first_view()
    assert after("?", "q").has_quit
    assert (after(" ").is_paused, after(" ", " ").is_paused) == (True, False)
    assert after("i").shows_internal
    assert after("q").has_quit


def test_an_unknown_key_changes_nothing() -> None:
    assert after("x", "é", "f1") == first_view()


@given(st.lists(st.sampled_from(KEYS) | st.characters(), max_size=20))
def test_any_keys_leave_a_view_that_can_be_shown(keys: list[str]) -> None:
    view = after(*keys)
    assert 0 <= view.focus < len(SECTIONS)
    for section, chosen in zip(SECTIONS, view.sections, strict=True):
        assert isinstance(chosen, SectionView)
        assert 0 <= chosen.sorted_by < len(section.columns)
        assert chosen.offset >= 0
