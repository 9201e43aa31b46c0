from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.console.messages.query import MessageQuery, parse_offset, parse_time, query_of

TEXTS = st.text(max_size=20).filter(lambda text: text.isprintable())


def test_an_address_without_parameters_is_the_newest_of_all_partitions() -> None:
    assert query_of({}) == MessageQuery()
    assert MessageQuery().link() == "?"


@given(
    st.builds(MessageQuery, key=TEXTS, text=TEXTS, header=TEXTS, path=TEXTS, partition=st.none() | st.integers(0, 9),
              count=st.sampled_from([10, 50]), committed=st.booleans(), follow=st.booleans(), older=st.just("0.5"))
)  # fmt: skip
def test_a_link_is_the_query(query: MessageQuery) -> None:
    assert query_of(dict(parse_qsl(query.link()[1:], keep_blank_values=True))) == query


def test_links_with_changes_keep_the_rest() -> None:
    assert MessageQuery(key="a&b", newer="0.1").link(older="0.9", newer="") == "?key=a%26b&older=0.9"


@pytest.mark.parametrize("parameters", [{"start": "x"}, {"partition": "-1"}, {"partition": "x"}, {"count": "9" * 30}])
def test_a_wrong_parameter_is_named(parameters: dict[str, str]) -> None:
    [name] = parameters
    with pytest.raises(ValueError, match=f"{name}: expected"):
        query_of(parameters)


def test_the_count_is_bounded() -> None:
    assert query_of({"count": "9999"}).count == 100
    assert query_of({"count": "0"}).count == 25


def test_partitions_are_all_or_the_one_that_is_asked_for() -> None:
    assert MessageQuery().partitions([0, 1]) == [0, 1]
    assert MessageQuery(partition=1).partitions([0, 1]) == [1]
    assert MessageQuery(first=150).partitions(list(range(500)))[0::99] == [150, 249]
    with pytest.raises(ValueError, match="from 0 to 1"):
        MessageQuery(partition=2).partitions([0, 1])


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [("0", 0), ("1700000000000", 1_700_000_000_000), ("1970-01-01T00:00", 0), ("1970-01-01T01:00+01:00", 0),
     ("1970-01-02", 86_400_000)],
)  # fmt: skip
def test_times_are_utc_unless_they_name_a_zone(text: str, time_ms: int) -> None:
    assert parse_time(text) == time_ms


@pytest.mark.parametrize("parse", [parse_time, parse_offset])
@pytest.mark.parametrize("text", ["", "x", "-1", "1" * 30, "٣", "0001-01-01T00:00+23:59"])
def test_other_texts_are_refused(parse: Any, text: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        parse(text)
