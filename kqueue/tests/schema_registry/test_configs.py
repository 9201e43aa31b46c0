from __future__ import annotations

from typing import Any

import pytest

from kqueue.schema_registry.configs import effective_config, parse_config_update, updated_config
from kqueue.schema_registry.errors import RegistryError
from kqueue.tests.tables import for_each


def test_level_is_read_under_both_its_names_in_any_case() -> None:
    assert parse_config_update({"compatibility": "full"}) == {"compatibilityLevel": "FULL"}
    assert parse_config_update({"compatibilityLevel": "NONE", "other": 7}) == {"compatibilityLevel": "NONE"}


def test_all_members_are_kept() -> None:
    given = {
        "alias": "orders",
        "normalize": True,
        "validateFields": True,
        "validateRules": False,
        "compatibilityPolicy": "STRICT",
        "compatibilityGroup": "major",
        "defaultMetadata": {"properties": {"a": "b"}},
        "overrideMetadata": {"properties": {"a": "c"}},
        "defaultRuleSet": {"domainRules": []},
        "overrideRuleSet": None,
    }
    update = parse_config_update(given)
    assert update == {**given, "defaultRuleSet": {}}
    assert "overrideRuleSet" not in updated_config({}, update)


@for_each(
    "fields, code",
    [
        ({"compatibility": "SIDEWARDS"}, 42203),
        ({"compatibility": 7}, 42203),
        ({"normalize": "yes"}, 400),
        ({"alias": 7}, 400),
        ({"alias": "x" * 1001}, 400),
        ({"alias": "\ud800"}, 400),
        ({"compatibilityPolicy": "OTHER"}, 400),
        ({"defaultMetadata": 7}, 42210),
        ({"overrideRuleSet": {"domainRules": [{}]}}, 42210),
    ],
)
def test_member_of_another_type_is_refused(fields: dict[str, Any], code: int) -> None:
    with pytest.raises(RegistryError) as caught:
        parse_config_update(fields)
    assert caught.value.code == code


def test_update_leaves_other_members_and_takes_those_away_that_are_null() -> None:
    config = {"compatibilityLevel": "FULL", "alias": "a", "ofLaterVersions": 1}
    assert updated_config(config, {"alias": None, "normalize": True}) == {
        "normalize": True,
        "compatibilityLevel": "FULL",
        "ofLaterVersions": 1,
    }
    assert updated_config(None, {"compatibilityLevel": "NONE"}) == {"compatibilityLevel": "NONE"}


def test_each_member_holds_from_the_nearest_config_that_has_it() -> None:
    nearest, wider = {"normalize": False}, {"normalize": True, "compatibilityLevel": "FULL"}
    assert effective_config([nearest, None, wider, {"compatibilityLevel": "NONE"}]) == {
        "normalize": False,
        "compatibilityLevel": "FULL",
    }
