from __future__ import annotations

import pytest

from kqueue.console.listing import ROWS_PER_PAGE, listing, page_number

NAMES = [f"orders-{number:03}" for number in range(120)]


def test_a_list_is_cut_into_pages() -> None:
    first = listing(NAMES, {})
    assert (first.first, first.last, first.total, first.pages) == (1, ROWS_PER_PAGE, 120, 3)
    last = listing(NAMES, {"page": "3"})
    assert list(last.rows) == NAMES[100:]
    assert (last.first, last.last) == (101, 120)


def test_a_page_beyond_the_last_is_the_last() -> None:
    assert listing(NAMES, {"page": "99"}).page == 3
    assert listing([], {"page": "99"}).page == 1
    assert (listing([], {}).first, listing([], {}).last) == (0, 0)


@pytest.mark.parametrize("text", ["", "0", "-1", "x", "1.5", "٣", "9" * 5_000])
def test_a_number_that_is_none_is_the_first_page(text: str) -> None:
    assert page_number({"page": text}) == 1


def test_the_filter_finds_parts_of_names_in_any_case() -> None:
    page = listing(NAMES, {"q": " RDERS-11 "})
    assert list(page.rows) == NAMES[110:]
    assert (page.total, page.unfiltered) == (10, 120)


def test_links_keep_the_filter_and_what_a_page_names() -> None:
    page = listing(NAMES, {"q": 'o"&', "state": "a b", "other": "1"}, keep=("state",))
    assert page.link(1) == "?state=a+b&q=o%22%26"
    assert listing(NAMES, {"page": "2"}).link(3) == "?page=3"
