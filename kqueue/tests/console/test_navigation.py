from __future__ import annotations

from kqueue.console.navigation import NAVIGATION, Section, is_current, served_navigation


def test_sections_without_a_page_are_left_out() -> None:
    [cluster, data] = served_navigation({"/", "/topics", "/topics/{name}"})
    assert [section.title for section in cluster.sections] == ["Overview"]
    assert [section.path for section in data.sections] == ["/topics"]


def test_every_path_is_in_the_menu_once() -> None:
    paths = [section.path for group in NAVIGATION for section in group.sections]
    assert len(paths) == len(set(paths))


def test_a_page_below_a_section_belongs_to_it() -> None:
    topics, overview = Section("Topics", "/topics"), Section("Overview", "/")
    assert is_current(topics, "/topics")
    assert is_current(topics, "/topics/orders")
    assert not is_current(topics, "/topics2")
    assert is_current(overview, "/")
    assert not is_current(overview, "/topics")
