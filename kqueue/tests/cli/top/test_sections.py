from __future__ import annotations

from kqueue.admin.rates import GroupTrend
from kqueue.cli.top.picture import Picture
from kqueue.cli.top.sections import (
    BROKERS,
    DISKS,
    GROUPS,
    REQUESTS,
    SECTIONS,
    TOPICS,
    Cell,
    GroupRow,
    ScreenSection,
    shown,
)
from kqueue.client import GroupListing
from kqueue.tests.cli.top.pictures import EVIL, picture, with_requests
from kqueue.tests.tables import for_each


def cells(section: ScreenSection, row: object) -> list[str]:
    return [column.cell(row).text.strip() for column in section.columns]


def names(rows: list[object]) -> list[str]:
    return [cells(TOPICS, row)[0] for row in rows]


def test_brokers() -> None:
    one, two = BROKERS.rows(picture())
    assert cells(BROKERS, one) == ["1", "one.example:9092", "r1", "up", "yes", "4", "4", "4", "0"]
    assert cells(BROKERS, two)[1:4] == ["evil\\x1b[31m\\nname\\u202e:9092", "-", "fenced"]


def test_topics_are_sorted_with_unknown_values_last_in_both_directions() -> None:
    rows = TOPICS.rows(picture())
    first = cells(TOPICS, next(row for row in rows if row.name == "orders"))
    assert first == ["orders", "1", "100", "██", "-", "2.5 MB", "5.0 MB"]
    escaped = "evil\\x1b[31m\\nname\\u202e"
    assert names(TOPICS.select(rows, 2, descending=True)) == ["orders", "clicks", escaped, "__consumer_offsets"]
    assert names(TOPICS.select(rows, 2, descending=False)) == [escaped, "clicks", "orders", "__consumer_offsets"]
    assert names(TOPICS.select(rows, 1, descending=True)) == ["__consumer_offsets", "clicks", escaped, "orders"]


def test_a_filter_is_a_text_in_any_case() -> None:
    rows = TOPICS.rows(picture())
    assert names(TOPICS.select(rows, 0, descending=False, text="ORD")) == ["orders"]
    assert TOPICS.select(rows, 0, descending=False, text="none") == []


@for_each(
    "trend, lag, growth, caught_up",
    [
        (GroupTrend(0, 5.0, 0.0, 0.0), "0", "0", "now"),
        (GroupTrend(300, 5.0, -10.0, 30.0), "300", "-10", "30 s"),
        (GroupTrend(300, 5.0, 10.0, None), "300", "+10", "never"),
        (GroupTrend(300, 5.0, -0.001, 300_000.0), "300", "0", "never"),
        (GroupTrend(300, None, None, None), "300", "-", "-"),
        (GroupTrend(None, None, None, None), "-", "-", "-"),
    ],
)
def test_groups_have_their_trend_and_when_they_have_caught_up(
    trend: GroupTrend, lag: str, growth: str, caught_up: str
) -> None:
    row = GroupRow(GroupListing("g", "consumer", "Stable", "classic"), trend, Picture("b:1"))
    assert cells(GROUPS, row)[3:6] == [lag, growth, caught_up]


def test_a_lag_that_is_over_is_no_warning() -> None:
    def style(lag: int, growth: float) -> str:
        trend = GroupTrend(lag, 0.0, growth, None)
        return GROUPS.columns[4].cell(GroupRow(GroupListing("g", "", "", ""), trend, Picture("b:1"))).style

    assert [style(5, 1.0), style(0, 1.0), style(5, -1.0)] == ["yellow", "dim", "green"]


def test_groups_that_never_catch_up_are_sorted_before_those_that_do() -> None:
    def row(name: str, *trend: float | None) -> GroupRow:
        return GroupRow(GroupListing(name, "", "", ""), GroupTrend(*trend), Picture("b:1"))  # type: ignore[arg-type]

    rows = [
        row("a", 5, 1.0, -1.0, 5.0),
        row("b", 5, 1.0, 1.0, None),
        row("c", None, None, None, None),
        row("d", 5, 1.0, None, None),
    ]
    assert [one.listing.name for one in GROUPS.select(rows, 5, descending=True)] == ["b", "a", "c", "d"]


def test_slow_requests_and_how_to_get_them() -> None:
    rows = REQUESTS.select(REQUESTS.rows(with_requests()), REQUESTS.sorted_by, descending=True)
    assert [cells(REQUESTS, row) for row in rows] == [
        ["1", "Produce", "0.2", "60 ms", "200 ms", "-", "-"],
        ["1", "Fetch", "1,500", "0.20 ms", "0.90 ms", "400 ms", "500 ms"],
        ["1", "Metadata", "-", "-", "-", "-", "-"],
    ]
    assert "--metrics http://127.0.0.1:9404" in REQUESTS.empty(picture())[1]
    assert REQUESTS.rows(picture()) == []


def test_disks_say_what_is_used_and_which_folder_is_offline() -> None:
    data, lost = DISKS.rows(picture())
    assert cells(DISKS, data) == ["1", "/data", "online", "1", "2.5 MB", "4.0 kB", "100.0 kB", "96%"]
    assert cells(DISKS, lost)[1] == "/lost"
    assert cells(DISKS, lost)[2] not in ("online", "")
    assert [cell.style for cell in (DISKS.columns[7].cell(data), DISKS.columns[2].cell(lost))] == ["bold red"] * 2


def test_a_picture_without_a_reading_has_no_rows() -> None:
    for section in SECTIONS:
        assert section.rows(Picture("b:1")) == []
        assert section.empty(Picture("b:1"))


def test_names_are_escaped_and_bounded() -> None:
    assert shown(EVIL).text == "evil\\x1b[31m\\nname\\u202e"
    assert len(shown("x" * 100_000).text) == 250
    assert shown(None) == shown("") == Cell("-", "dim")
