from __future__ import annotations

from rich.cells import cell_len

from kqueue.cli.top.section_table import table_of
from kqueue.cli.top.sections import BROKERS, DISKS, REQUESTS, TOPICS
from kqueue.cli.top.view import SectionView
from kqueue.tests.cli.top.pictures import picture
from kqueue.tests.tables import for_each

BY_RATE = SectionView(2, descending=True)


def test_a_table_has_its_title_heads_and_rows() -> None:
    table = table_of(DISKS, picture(), SectionView(0, descending=False), internal=False)
    lines = [line.plain for line in table.lines(100, table.line_count)]
    assert (len(lines), cell_len(lines[0])) == (4, 100)
    assert lines[0].startswith("Disks 2 ───")
    assert lines[1].split() == ["BROKER▲", "FOLDER", "STATE", "REPLICAS", "SIZE", "FREE", "OF", "USED"]
    assert lines[2].split()[:3] == ["1", "/data", "online"]


@for_each("width, columns", [(200, 9), (100, 8), (80, 6), (60, 5), (40, 3), (1, 1)])
def test_columns_are_left_out_where_the_screen_is_narrow(width: int, columns: int) -> None:
    table = table_of(BROKERS, picture(), SectionView(0, descending=False), internal=False)
    heads = table.lines(width, 4)[1].plain
    assert len(heads.replace("OUT OF SYNC", "SYNC").split()) == columns


def test_rows_begin_with_the_one_that_was_moved_to_if_the_section_is_focused() -> None:
    table = table_of(TOPICS, picture(topics=50), SectionView(0, descending=False, offset=20), internal=False)
    focused = [line.plain for line in table.lines(80, 6, is_focused=True)]
    assert (focused[0].split("─")[0].strip(), focused[2].split()[0]) == ("Topics 21 to 24 of 53", "topic-017")
    assert table.lines(80, 6)[0].plain.startswith("Topics 1 to 4 of 53 ")


def test_a_section_without_rows_says_why() -> None:
    table = table_of(TOPICS, picture(), SectionView(0, descending=False, text="zz"), internal=False)
    assert [line.plain for line in table.lines(60, table.line_count)][1:] == ["  no topics whose name has this text"]
    table = table_of(REQUESTS, picture(), BY_RATE, internal=False)
    assert (table.line_count, len(table.lines(60, 5))) == (3, 5)


def test_internal_topics_and_series_are_shown_on_request() -> None:
    without, with_all = (table_of(TOPICS, picture(), BY_RATE, internal=internal) for internal in (False, True))
    assert (without.total, with_all.total) == (3, 4)
    assert "RECENT" in without.lines(120, 4)[1].plain
    assert "RECENT" not in without.lines(120, 4, series=False)[1].plain
