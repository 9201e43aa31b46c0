from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kqueue.client.topic_partition import TopicPartition
from kqueue.spark.errors import OptionError
from kqueue.spark.offsets import (
    BEGIN,
    EARLIEST,
    IDS,
    LATEST,
    OffsetBound,
    from_json,
    ids_of,
    parse_assigned,
    parse_listed,
    plain,
    to_json,
)
from kqueue.tests.tables import for_each

TOPICS = st.text("abc.-_0", min_size=1, max_size=5)
OFFSETS = st.dictionaries(st.tuples(TOPICS, st.integers(0, 30)), st.integers(-2, 2**63 - 1), max_size=8)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(OFFSETS)
def test_offsets_survive_a_round_trip_through_json(given: dict[tuple[str, int], int]) -> None:
    offsets = {TopicPartition(*topic_partition): offset for topic_partition, offset in given.items()}
    text = json.dumps(to_json(offsets))
    assert from_json(json.loads(text), "here") == offsets
    turned = dict(reversed(offsets.items()))
    assert json.dumps(to_json(turned)) == text, "equal offsets are equal texts: Spark compares these"


def test_json_has_the_form_of_sparks_own_source() -> None:
    assert parse_listed('{"a":{"0":12,"1":-2},"b":{"0":-1}}', "startingOffsets") == {
        ("a", 0): 12,
        ("a", 1): EARLIEST,
        ("b", 0): LATEST,
    }
    offsets = {TopicPartition("b", 10): 1, TopicPartition("b", 9): 2, TopicPartition("a", 0): 3}
    assert json.dumps(to_json(offsets)) == '{"a": {"0": 3}, "b": {"9": 2, "10": 1}}'
    assert parse_assigned('{"a":[0,1,0],"b":[2]}', "assign") == (("a", 0), ("a", 1), ("b", 2))


@for_each(
    "text",
    [
        "",
        "12",
        "[]",
        '{"a":1}',
        '{"a":{"x":1}}',
        '{"a":{"0":1.5}}',
        '{"a":{"0":true}}',
        '{"a":{"0":-3}}',
        '{"a":{"-1":1}}',
        '{"a":{"0":"1"}}',
        '{"a":{"0":9223372036854775808}}',
        '{"a":{"99999999999":1}}',
        '{"a":{"2147483648":1}}',
        '{"a":{"0":1},"a":{"0":2}}',
        '{"a":{"٠":1}}',
        "[" * 100_000,
    ],
)
def test_other_forms_are_refused(text: str) -> None:
    with pytest.raises(OptionError, match="^startingOffsets: ") as caught:
        parse_listed(text, "startingOffsets")
    assert len(str(caught.value)) < 300


@for_each("text", ["{}", "[]", '{"a":0}', '{"a":[]}', '{"a":["0"]}', '{"a":[-1]}', '{"a":[true]}', "x"])
def test_other_forms_of_partitions_are_refused(text: str) -> None:
    with pytest.raises(OptionError, match="^assign: "):
        parse_assigned(text, "assign")


def test_a_first_end_knows_its_beginning() -> None:
    end = {"a": {"0": 5}, BEGIN: {"a": {"0": 2}}}
    assert from_json(end, "here") == {("a", 0): 5}
    assert from_json(end[BEGIN], "here") == {("a", 0): 2}


def test_offsets_have_the_ids_of_their_topics() -> None:
    end = {"a": {"0": 5}, BEGIN: {"a": {"0": 2}}, IDS: {"a": "x"}}
    assert from_json(end, "here") == {("a", 0): 5}
    assert plain(end) == {"a": {"0": 5}}
    assert ids_of(end, "here") == {"a": "x"}
    assert ids_of({"a": {"0": 5}}, "here") == {}
    for wrong in ([], {"a": 5}):
        with pytest.raises(OptionError, match="^here: expected .* in @ids"):
            ids_of({IDS: wrong}, "here")


@for_each(
    "bound, fixed",
    [
        (OffsetBound("x", everywhere=EARLIEST), True),
        (OffsetBound("x", everywhere=LATEST), False),
        (OffsetBound("x", time=5), False),
        (OffsetBound("x", listed={TopicPartition("a", 0): 5}), True),
        (OffsetBound("x", listed={TopicPartition("a", 0): 5, TopicPartition("a", 1): LATEST}), False),
    ],
)
def test_bound_is_fixed_if_it_resolves_to_the_same_offsets_later(bound: OffsetBound, fixed: bool) -> None:
    assert bound.is_fixed is fixed
