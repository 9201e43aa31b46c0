from __future__ import annotations

from collections import Counter
from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from kqueue.embedded.inspection.expected_headers import expected_headers, matched, shown_headers
from kqueue.embedded.inspection.record_appender import raw_headers


@given(
    st.lists(st.dictionaries(st.sampled_from("ab"), st.sampled_from("12")), max_size=5),
    st.lists(st.dictionaries(st.sampled_from("ab"), st.sampled_from("12")), max_size=5),
)
def test_headers_fit_exactly_when_some_assignment_does(
    wanted: list[dict[str, str]], there: list[dict[str, str]]
) -> None:
    expected = [("x", one) for one in expected_headers(wanted, len(wanted))]
    records = [("x", raw_headers(one)) for one in there]
    tokens, actual = matched(expected, records, ordered=False)
    some = any(
        all(item[1].fit(records[place][1]) for item, place in zip(expected, places, strict=True))
        for places in permutations(range(len(records)), len(expected))
    )
    assert (not Counter(tokens) - Counter(actual)) is (some and len(wanted) <= len(there))


def test_in_order_an_item_is_looked_for_after_those_before_it() -> None:
    expected = [("x", one) for one in expected_headers([{"a": "1"}, {}], 2)]
    records = [("x", raw_headers(one)) for one in ({}, {"a": "1"}, {"b": "1"})]
    tokens, actual = matched(expected, records, ordered=True)
    assert actual[1:] == tokens
    assert actual[0] not in tokens


def test_repeated_names_are_shown_as_pairs() -> None:
    assert shown_headers((("a", b"1"), ("b", None))) == "{'a': b'1', 'b': None}"
    assert shown_headers((("a", b"1"), ("a", b"2"))) == "[('a', b'1'), ('a', b'2')]"
