"""Tests of `kqueue.security.acls`: filters, ids, and names that look alike."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.base.errors import CorruptData, InvalidRequest
from kqueue.security.acls import AclBinding, AclFilter, AclIndex, binding_of_json, canonical_host, check_binding
from kqueue.security.operations import AclOperation, AclPermission, PatternType, ResourceType
from kqueue.tests.security.acl_strategies import BINDINGS, acl
from kqueue.tests.tables import for_each

LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED


@given(BINDINGS)
def test_an_entry_survives_its_stored_form(binding: AclBinding) -> None:
    assert binding_of_json(binding.to_json().encode()) == binding
    assert binding.id == AclBinding(*binding).id


@given(BINDINGS, BINDINGS)
def test_entries_that_differ_have_ids_that_differ(one: AclBinding, other: AclBinding) -> None:
    assert (one.id == other.id) is (one == other)


@for_each("value", [b"", b"{}", b"[]", b"null", b'{"resource_type": "ANY"}', acl(name="").to_json().encode(), b"\xff"])
def test_a_stored_entry_that_is_damaged_is_an_error(value: bytes) -> None:
    with pytest.raises(CorruptData):
        binding_of_json(value)


@for_each(
    "binding",
    [
        acl(resource_type=ResourceType.ANY),
        acl(resource_type=ResourceType.UNKNOWN),
        acl(pattern_type=PatternType.MATCH),
        acl(pattern_type=PatternType.ANY),
        acl(operation=AclOperation.ANY),
        acl(operation=AclOperation.UNKNOWN),
        acl(permission=AclPermission.ANY),
        acl(name=""),
        acl(resource_type=ResourceType.CLUSTER, name="other"),
        acl(principal="ann"),
        acl(principal=":ann"),
        acl(host=""),
    ],
)
def test_an_entry_that_means_nothing_is_refused(binding: AclBinding) -> None:
    with pytest.raises(InvalidRequest):
        check_binding(binding)


@for_each(
    "pattern_type, name, matching",
    [
        (PatternType.ANY, None, {"orders", "ord", "*"}),
        (PatternType.ANY, "orders", {"orders"}),
        (LITERAL, "orders", {"orders"}),
        (LITERAL, None, {"orders", "*"}),
        (PREFIXED, None, {"ord"}),
        (PREFIXED, "ord", {"ord"}),
        (PREFIXED, "orders", set()),
        (PatternType.MATCH, "orders", {"orders", "ord", "*"}),
        (PatternType.MATCH, "order", {"ord", "*"}),
        (PatternType.MATCH, "or", {"*"}),
        (PatternType.MATCH, None, {"orders", "ord", "*"}),
    ],
)
def test_a_filter_finds_patterns(pattern_type: PatternType, name: str | None, matching: set[str]) -> None:
    bindings = [acl(name="orders"), acl(name="ord", pattern_type=PREFIXED), acl(name="*")]
    acl_filter = AclFilter(name=name, pattern_type=pattern_type)
    assert {binding.name for binding in bindings if acl_filter.matches(binding)} == matching


@for_each(
    "acl_filter",
    [
        AclFilter(resource_type=ResourceType.GROUP),
        AclFilter(principal="User:bob"),
        AclFilter(principal="user:ann"),
        AclFilter(host="10.0.0.8"),
        AclFilter(operation=AclOperation.WRITE),
        AclFilter(operation=AclOperation.ALL),
        AclFilter(permission=AclPermission.DENY),
        AclFilter(permission=AclPermission.UNKNOWN),
    ],
)
def test_a_filter_compares_every_field(acl_filter: AclFilter) -> None:
    assert not acl_filter.matches(acl(host="10.0.0.7"))
    assert AclFilter().matches(acl(host="10.0.0.7"))


@given(st.lists(BINDINGS, max_size=20), st.lists(st.integers(0, 19)))
def test_an_index_is_what_was_added_and_not_removed(bindings: list[AclBinding], removed: list[int]) -> None:
    index = AclIndex(bindings)
    gone = {bindings[number] for number in removed if number < len(bindings)}
    for binding in gone:
        index.discard(binding)
        index.discard(binding)
    left = [binding for binding in dict.fromkeys(bindings) if binding not in gone]
    assert list(index) == left
    assert len(index) == len(left)
    fresh = AclIndex(left)
    for kind in ResourceType:
        for pattern_type in (LITERAL, PREFIXED):
            assert index.patterns(kind, pattern_type) == fresh.patterns(kind, pattern_type)
        for binding in bindings:
            assert list(index.of_resource(kind, binding.name)) == list(fresh.of_resource(kind, binding.name))


@for_each(
    "host, same",
    [
        ("::1", "0:0:0:0:0:0:0:1"),
        ("::ffff:10.0.0.7", "10.0.0.7"),
        ("FE80::1", "fe80:0:0:0:0:0:0:1"),
        ("host.example", "host.example"),
        ("*", "*"),
    ],
)
def test_texts_of_one_address_are_one_host(host: str, same: str) -> None:
    assert canonical_host(host) == canonical_host(same)


def test_the_text_of_an_entry_is_its_short_form() -> None:
    assert str(acl()) == "User:ann allow read topic:orders"
    prefixed = acl(pattern_type=PREFIXED, host="10.0.0.7", permission=AclPermission.DENY)
    assert str(prefixed) == "User:ann deny read topic prefixed:orders from 10.0.0.7"
