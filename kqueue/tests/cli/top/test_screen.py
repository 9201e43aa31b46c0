from __future__ import annotations

import io
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from kqueue.cli.output import new_console
from kqueue.cli.top.picture import Picture
from kqueue.cli.top.screen import Screen, share_lines, whole
from kqueue.cli.top.view import View, first_view, press
from kqueue.tests.cli.top.pictures import EVIL, picture, with_requests
from kqueue.tests.tables import for_each


def drawn(shown: Picture, *keys: str, width: int = 120, height: int = 40, view: View | None = None) -> list[str]:
    """Return the lines of the screen after these keys, as rich writes them."""
    view = view or first_view()
    for key in keys:
        view = press(view, key)
    console = new_console(io.StringIO(), width=width)
    console.print(Screen(shown, view, 2.0), height=height, no_wrap=True, crop=False)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().rstrip("\n").split("\n")


def heads(lines: list[str]) -> list[str]:
    return [line.split("─")[0].strip() for line in lines if "───" in line]


def test_a_whole_screen_has_the_cluster_and_all_sections() -> None:
    lines = drawn(with_requests())
    assert lines[0].split() == ["kqueue", "top", "cluster", "the-cluster", "at", "one.example:9092", "every", "2", "s"]
    assert lines[1].startswith("1 broker, 1 down, 4 topics, 4 partitions, 1 under-replicated, 107 records/s  ")
    assert heads(lines) == ["Brokers 2", "Topics 3", "Groups 3", "Slow requests 3", "Disks 2"]
    head, first = (line.split() for line in lines[lines.index(next(x for x in lines if x.startswith("TOPIC"))) :][:2])
    assert head == ["TOPIC", "PARTITIONS", "RECORDS/S▼", "RECENT", "BYTES/S", "SIZE", "REPLICAS"]
    assert first == ["orders", "1", "100", "██", "-", "2.5", "MB", "5.0", "MB"]
    assert lines[-1].startswith("1-5 section")
    assert len(lines) == 40


def test_the_focused_section_has_most_lines_and_is_moved_through() -> None:
    many = picture(topics=100)
    assert "Topics 1 to 18 of 103" in heads(drawn(many))
    assert "Topics 11 to 28 of 103" in heads(drawn(many, "pagedown"))
    assert "Topics 86 to 103 of 103" in heads(drawn(many, *["pagedown"] * 30))
    assert "Topics 1 to 8 of 103" in heads(drawn(many, "3", height=30))
    assert "Topics 1 to 18 of 104" in heads(drawn(many, "i"))


def test_a_small_screen_has_the_focused_section_and_what_fits() -> None:
    lines = drawn(picture(topics=100), width=60, height=15)
    assert len(lines) == 15
    assert heads(lines) == ["Topics 1 to 9 of 103"]
    assert next(line for line in lines if line.startswith("TOPIC")).split() == [
        "TOPIC",
        "RECORDS/S▼",
        "BYTES/S",
        "SIZE",
    ]
    assert heads(drawn(picture(), "5", width=60, height=15)) == ["Brokers 2", "Slow requests", "Disks 2"]


def test_the_sort_column_and_the_filter_are_shown() -> None:
    lines = drawn(picture(), "/", "o", "r", "d")
    assert "Topics 1 of 3  /ord" in heads(lines)
    assert lines[-1].startswith("filter: ord▏")
    lines = drawn(picture(), "/", "z", "enter", "r")
    assert "  no topics whose name has this text" in [line.rstrip() for line in lines]
    assert any("RECORDS/S▲" in line for line in drawn(picture(), "r"))


def test_a_reading_that_fails_is_a_line_and_the_older_picture_stays() -> None:
    lines = drawn(replace(picture(), error="no broker answers\x1b[2J", failed_for_s=12.3, problems=["no metrics"]))
    assert lines[2].strip() == "2 problems, see ?: not read for 13 s: no broker answers\\x1b[2J"
    assert "Topics 3" in heads(lines)
    help_lines = [line.strip() for line in drawn(replace(picture(), problems=["one", "two"]), "?")]
    assert help_lines[-1] == "any key: back"
    assert {"one", "two"} <= set(help_lines)


def test_before_the_first_reading_the_screen_says_so() -> None:
    assert drawn(Picture("b:1"))[0].strip() == "kqueue top  b:1   reading ..."
    failed = drawn(Picture("b:1", error="refused", failed_for_s=0.5))
    assert (failed[0].strip(), failed[2].strip()) == ("kqueue top  b:1", "not read for 1 s: refused")


def test_a_pause_is_shown() -> None:
    assert drawn(picture(), " ")[0].startswith("kqueue top  PAUSED  cluster")


def test_control_characters_of_names_reach_no_terminal() -> None:
    text = "\n".join(drawn(picture(), "i"))
    assert "evil\\x1b[31m\\nname\\u202e" in text
    assert "\x1b" not in text
    assert EVIL not in text


@for_each(
    "needed, focus, room, shares",
    [
        ([4, 30, 6, 12, 3], 1, 35, [4, 17, 6, 5, 3]),
        ([4, 6, 6, 12, 3], 1, 60, [4, 6, 6, 12, 3]),
        ([4, 30, 6, 12, 3], 1, 11, [0, 11, 0, 0, 0]),
        ([4, 30, 6, 12, 3], 4, 11, [4, 4, 0, 0, 3]),
        ([4, 30], 0, 0, [0, 0]),
    ],
)
def test_lines_are_shared(needed: list[int], focus: int, room: int, shares: list[int]) -> None:
    assert share_lines(needed, focus, room) == shares


@given(st.lists(st.integers(3, 50), min_size=5, max_size=5), st.integers(0, 4), st.integers(0, 100))
def test_no_more_lines_are_shared_than_there_are(needed: list[int], focus: int, room: int) -> None:
    shares = share_lines(needed, focus, room)
    assert sum(shares) <= room
    assert all(0 <= share <= need for share, need in zip(shares, needed, strict=True))
    assert shares[focus] or not room


@given(st.integers(1, 250), st.integers(1, 60), st.lists(st.sampled_from(["3", "?", "/", "tab", ">", "i"]), max_size=3))
def test_a_screen_of_any_size_is_filled_exactly(width: int, height: int, keys: list[str]) -> None:
    view = first_view()
    for key in keys:
        view = press(view, key)
    lines = Screen(with_requests(), view, 2.0).lines(width, height)
    assert len(lines) == height
    assert max(cell_len(line.plain) for line in lines) <= width


def test_wide_characters_of_names_keep_the_columns_in_line() -> None:
    shown = picture()
    assert shown.snapshot is not None
    groups = dict(shown.snapshot.groups)
    groups["漢字" * 40] = groups["billing"]._replace(name="漢字" * 40)
    wide = replace(shown, snapshot=replace(shown.snapshot, groups=groups))
    lines = Screen(wide, press(first_view(), "3"), 2.0).lines(80, 30)
    rows = [line.plain for line in lines if "classic" in line.plain or "Stable" in line.plain]
    assert {cell_len(row) for row in rows} == {80}


def test_one_picture_for_pipes_has_all_rows_and_no_series() -> None:
    lines = [line.plain for line in whole(picture(topics=100), 120)]
    assert sum(line.startswith("topic-") for line in lines) == 100
    assert any(line.startswith("__consumer_offsets") for line in lines)
    assert not any("RECENT" in line for line in lines)
    assert sum("--metrics" in line for line in lines) == 1
