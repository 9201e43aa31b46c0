from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.base.errors import CorruptData, InvalidRequest, UnsupportedVersion
from kqueue.security.quotas import (
    CLIENT_ID,
    CONNECTION_CREATION_RATE,
    CONTROLLER_MUTATION_RATE,
    IP,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    USER,
    Limit,
    MatchType,
    QuotaEntity,
    QuotaTable,
    check_value,
    entity_of,
    filter_of,
    from_json,
    kept_client_id,
    to_json,
)
from kqueue.tests.tables import for_each

NAMES = st.one_of(st.none(), st.text(min_size=1, max_size=8))
CLIENTS = st.one_of(
    st.tuples(st.tuples(st.just(USER), NAMES)),
    st.tuples(st.tuples(st.just(CLIENT_ID), NAMES)),
    st.tuples(st.tuples(st.just(CLIENT_ID), NAMES), st.tuples(st.just(USER), NAMES)),
).map(entity_of)
PRECEDENCE = [
    ([(USER, "ann"), (CLIENT_ID, "app")], ("ann", "app")),
    ([(USER, "ann"), (CLIENT_ID, None)], ("ann", "app")),
    ([(USER, "ann")], ("ann", None)),
    ([(USER, None), (CLIENT_ID, "app")], ("ann", "app")),
    ([(USER, None), (CLIENT_ID, None)], ("ann", "app")),
    ([(USER, None)], ("ann", None)),
    ([(CLIENT_ID, "app")], (None, "app")),
    ([(CLIENT_ID, None)], (None, "app")),
]
"""Kafka's order, and which clients share each of them."""


@given(st.sets(st.integers(0, len(PRECEDENCE) - 1)))
def test_the_most_specific_quota_holds(present: set[int]) -> None:
    table = QuotaTable()
    for index in present:
        table.set(entity_of(PRECEDENCE[index][0]), {PRODUCER_BYTE_RATE: index + 1})
    table.set(entity_of([(USER, "bob")]), {PRODUCER_BYTE_RATE: 99})
    table.set(entity_of([(USER, "ann")]), {**table.get(entity_of([(USER, "ann")])), REQUEST_PERCENTAGE: 50})
    expected = Limit(min(present) + 1, PRECEDENCE[min(present)][1]) if present else None  # type: ignore[arg-type]
    assert table.client_limit(PRODUCER_BYTE_RATE, "ann", "app") == expected


def test_quotas_of_addresses_are_apart() -> None:
    table = QuotaTable()
    assert table.address_limit("10.0.0.1") is None
    table.set(entity_of([(IP, None)]), {CONNECTION_CREATION_RATE: 5})
    table.set(entity_of([(IP, "10.0.0.1")]), {CONNECTION_CREATION_RATE: 7})
    assert (table.address_limit("10.0.0.1"), table.address_limit("10.0.0.2")) == (7, 5)
    assert table.bounds_addresses
    assert not table.bounds_clients
    table.set(entity_of([(CLIENT_ID, None)]), {REQUEST_PERCENTAGE: 5})
    assert table.bounds_clients


@pytest.mark.parametrize(
    ("parts", "problem"),
    [
        ([], "empty client quota entity"),
        ([(USER, "a"), (USER, "b")], "duplicate entity entry user"),
        ([("group", "a")], "Unhandled client quota entity type: group"),
        ([(USER, "")], "Empty user not supported"),
        ([(IP, "10.0.0.1"), (USER, "a")], "can't be one of a user"),
        ([(IP, "example.org")], "not a valid IP"),
    ],
)
def test_entities_that_cannot_be_are_refused(parts: list[tuple[str, str | None]], problem: str) -> None:
    with pytest.raises(InvalidRequest, match=problem):
        entity_of(parts)


def test_an_entity_is_the_same_in_any_order_and_spelling() -> None:
    assert entity_of([(CLIENT_ID, "c"), (USER, None)]) == entity_of([(USER, None), (CLIENT_ID, "c")])
    assert entity_of([(IP, "::1")]) == entity_of([(IP, "0:0:0:0:0:0:0:1")])
    assert str(entity_of([(CLIENT_ID, "c"), (USER, None)])) == "user <default>, client-id 'c'"


@pytest.mark.parametrize(
    ("parts", "key", "value", "problem"),
    [
        ([(USER, "a")], "colour", 1.0, "Invalid configuration key colour"),
        ([(USER, "a")], CONNECTION_CREATION_RATE, 1.0, "Invalid configuration key"),
        ([(IP, None)], PRODUCER_BYTE_RATE, 1.0, "Invalid configuration key"),
        ([(USER, "a")], PRODUCER_BYTE_RATE, 0.0, "greater than 0"),
        ([(USER, "a")], REQUEST_PERCENTAGE, -0.5, "greater than 0"),
        ([(USER, "a")], REQUEST_PERCENTAGE, math.nan, "greater than 0"),
        ([(USER, "a")], REQUEST_PERCENTAGE, math.inf, "finite"),
        ([(USER, "a")], PRODUCER_BYTE_RATE, 1.5, "fractional"),
        ([(USER, "a")], PRODUCER_BYTE_RATE, 1e19, "too large"),
        ([(IP, None)], CONNECTION_CREATION_RATE, 2.0**31, "too large"),
    ],
)
def test_values_that_cannot_be_are_refused(
    parts: list[tuple[str, str | None]], key: str, value: float, problem: str
) -> None:
    with pytest.raises(InvalidRequest, match=problem):
        check_value(entity_of(parts), key, value)


def test_fractions_are_allowed_where_kafka_allows_them() -> None:
    check_value(entity_of([(USER, "a")]), REQUEST_PERCENTAGE, 0.5)
    check_value(entity_of([(USER, "a")]), CONTROLLER_MUTATION_RATE, 0.01)


@given(CLIENTS, st.dictionaries(st.sampled_from([PRODUCER_BYTE_RATE, REQUEST_PERCENTAGE]), st.integers(1, 2**50)))
def test_quotas_are_the_same_after_they_were_stored(entity: QuotaEntity, values: dict[str, float]) -> None:
    assert from_json(to_json(entity, values).encode()) == (entity, values)


@given(CLIENTS, CLIENTS)
def test_only_equal_entities_have_one_id(one: QuotaEntity, other: QuotaEntity) -> None:
    assert (one.id == other.id) == (one == other)


@for_each(
    "value",
    [b"", b"{}", b"[]", b'{"entity": {}, "quotas": {}}', b'{"entity": {"user": 1}, "quotas": {}}', b"\xff",
     b'{"entity": {"user": "a"}, "quotas": {"producer_byte_rate": "x"}}',
     b'{"entity": {"user": "a"}, "quotas": {"producer_byte_rate": -1}}'],
)  # fmt: skip
def test_damaged_entries_are_reported(value: bytes) -> None:
    with pytest.raises(CorruptData, match="can't be read"):
        from_json(value)


EXACT, DEFAULT, ANY = MatchType


@given(st.sets(CLIENTS, max_size=8), st.booleans(), NAMES)
def test_filters_find_what_they_say(entities: set[QuotaEntity], strict: bool, name: str | None) -> None:
    match = (USER, DEFAULT, None) if name is None else (USER, EXACT, name)
    entity_filter = filter_of([match], strict=strict)
    expected = {one for one in entities if (USER, name) in one.parts and (len(one.parts) == 1 or not strict)}
    assert {one for one in entities if entity_filter.matches(one)} == expected
    of_any = filter_of([(CLIENT_ID, ANY, None)], strict=strict)
    assert {one for one in entities if of_any.matches(one)} == {
        one for one in entities if CLIENT_ID in dict(one.parts) and (len(one.parts) == 1 or not strict)
    }
    assert all(filter_of([], strict=False).matches(one) for one in entities)
    assert not any(filter_of([], strict=True).matches(one) for one in entities)


@for_each(
    "components",
    [
        [("", EXACT, "a")],
        [(USER, EXACT, "a"), (USER, ANY, None)],
        [(USER, EXACT, None)],
        [(USER, DEFAULT, "a")],
        [(USER, ANY, "a")],
        [(USER, 7, None)],
        [(IP, ANY, None), (USER, ANY, None)],
    ],
)
def test_filters_that_cannot_be_are_refused(components: list[tuple[str, int, str | None]]) -> None:
    with pytest.raises(InvalidRequest):
        filter_of(components, strict=False)


def test_filters_of_unknown_types_are_an_unsupported_version() -> None:
    with pytest.raises(UnsupportedVersion):
        filter_of([("group", ANY, None)], strict=False)


def test_long_client_ids_are_kept_as_a_digest() -> None:
    assert kept_client_id("c" * 256) == "c" * 256
    assert len(kept_client_id("c" * 32_000)) == 32
    assert kept_client_id("c" * 300) != kept_client_id("c" * 301)
