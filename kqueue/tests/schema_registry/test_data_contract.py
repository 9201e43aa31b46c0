from __future__ import annotations

from typing import Any

import pytest

from kqueue.schema_registry.data_contract import (
    merge_metadata,
    merge_rule_sets,
    metadata_parts,
    parse_metadata,
    parse_rule_set,
    rule_set_parts,
)
from kqueue.schema_registry.errors import RegistryError
from kqueue.tests.tables import for_each


def rule(name: str = "check", **more: Any) -> dict[str, Any]:
    return {"name": name, "type": "CEL", **more}


def test_metadata_is_kept_in_one_order_without_empty_parts() -> None:
    given = {"properties": {"b": "2", "a": "1"}, "tags": {"p": ["y", "x", "y"]}, "sensitive": [], "unknown": 1}
    metadata = parse_metadata(given)
    assert metadata == {"tags": {"p": ["x", "y"]}, "properties": {"a": "1", "b": "2"}}
    assert metadata is not None
    assert list(metadata["properties"]) == ["a", "b"]
    assert parse_metadata(None) is None
    assert parse_metadata({}) == {}


@for_each(
    "given",
    [
        [],
        "text",
        {"tags": []},
        {"tags": {"p": "x"}},
        {"tags": {"p": [1]}},
        {"properties": {"a": 1}},
        {"sensitive": {"a": 1}},
        {"properties": {"a": "\ud800"}},
        {"properties": {"\ud800": "a"}},
    ],
)
def test_metadata_of_other_types_is_refused(given: Any) -> None:
    with pytest.raises(RegistryError) as caught:
        parse_metadata(given)
    assert caught.value.code == 42210


def test_rule_gets_the_kind_and_mode_that_clients_take_for_granted() -> None:
    rules = parse_rule_set({"domainRules": [rule(tags=["b", "a"], params={"k": "v"}, expr="x")], "migrationRules": []})
    assert rules == {
        "domainRules": [
            {
                "name": "check",
                "kind": "TRANSFORM",
                "mode": "WRITEREAD",
                "type": "CEL",
                "tags": ["a", "b"],
                "params": {"k": "v"},
                "expr": "x",
                "disabled": False,
            }
        ]
    }
    assert parse_rule_set(None) is None


@for_each(
    "given",
    [
        {"domainRules": [rule("1x")]},
        {"domainRules": [rule("")]},
        {"domainRules": [rule("a b")]},
        {"domainRules": [rule("a" * 1000)]},
        {"domainRules": [{"name": "x"}]},
        {"domainRules": [rule(), rule()]},
        {"domainRules": [rule(mode="UPGRADE")]},
        {"migrationRules": [rule(mode="READ")]},
        {"domainRules": [rule(kind="OTHER")]},
        {"domainRules": [rule(params={"a": None})]},
        {"domainRules": [7]},
        {"domainRules": rule()},
        7,
    ],
)
def test_new_rule_that_no_client_can_run_is_refused(given: Any) -> None:
    with pytest.raises(RegistryError) as caught:
        parse_rule_set(given)
    assert caught.value.code == 42210
    assert len(str(caught.value)) < 400


def test_stored_rule_is_taken_whatever_its_name_and_mode() -> None:
    rules = parse_rule_set({"domainRules": [{"name": "a b", "mode": "NEW"}]}, is_new=False)
    assert rules is not None
    assert rules["domainRules"][0]["mode"] == "NEW"
    assert list(rule_set_parts(rules))


def test_newer_metadata_wins_and_sets_are_joined() -> None:
    older = parse_metadata({"properties": {"a": "1", "b": "1"}, "sensitive": ["x"], "tags": {"p": ["1"]}})
    newer = parse_metadata({"properties": {"b": "2"}, "sensitive": ["y"]})
    assert merge_metadata(older, newer) == {
        "properties": {"a": "1", "b": "2"},
        "sensitive": ["x", "y"],
        "tags": {"p": ["1"]},
    }
    assert merge_metadata(None, newer) == newer
    assert merge_metadata(older, None) == older


def test_newer_rule_replaces_the_one_of_its_name() -> None:
    older = parse_rule_set({"domainRules": [rule("a", expr="1"), rule("b")]})
    newer = parse_rule_set({"domainRules": [rule("a", expr="2")], "encodingRules": [rule("c")]})
    merged = merge_rule_sets(older, newer)
    assert merged is not None
    assert [(one["name"], one.get("expr")) for one in merged["domainRules"]] == [("b", None), ("a", "2")]
    assert [one["name"] for one in merged["encodingRules"]] == ["c"]
    assert merge_rule_sets(None, newer) == newer
    assert merge_rule_sets(older, None) == older


def test_time_from_which_rules_hold_is_kept_merged_and_hashed() -> None:
    rules = parse_rule_set({"enableAt": "2030", "domainRules": []})
    assert rules == {"enableAt": "2030"}
    assert merge_rule_sets({"enableAt": "2029"}, rules) == rules
    assert merge_rule_sets(rules, {}) == rules
    assert list(rule_set_parts(rules)) == [b"\x01", b"2030"]


def test_hashed_parts_distinguish_nothing_from_empty_and_an_enabled_rule_from_a_disabled_one() -> None:
    assert list(metadata_parts(None)) == []
    assert list(metadata_parts({})) == [b"\x01"]
    both = [parse_rule_set({"domainRules": [rule(disabled=is_disabled)]}) for is_disabled in (False, True)]
    enabled, disabled = (b"".join(rule_set_parts(rules)) for rules in both)
    assert enabled == b"\x01checkTRANSFORMWRITEREADCEL"
    assert disabled == enabled + b"\x01"
