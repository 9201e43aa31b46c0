from __future__ import annotations

from typing import Any

import pytest

from kqueue.schema_registry.catalog import Deleted, parse_version
from kqueue.schema_registry.errors import RegistryError
from kqueue.tests.schema_registry.support import INT, LONG, STRING, LoggedRegistry, name, reference
from kqueue.tests.tables import for_each


@pytest.fixture
def filled() -> LoggedRegistry:
    """`a`: versions 1 (deleted) and 2; `b`: deleted; `ab`: one; `:.c:a`: one."""
    registry = LoggedRegistry(compatibility="NONE")
    registry.add("a", STRING)
    registry.add("a", INT)
    registry.add("b", STRING)
    registry.add("ab", STRING)
    registry.add(":.c:a", LONG)
    registry.delete_version(name("a"), "1")
    registry.delete_subject(name("b"))
    return registry


def code(call: Any) -> int:
    with pytest.raises(RegistryError) as caught:
        call()
    return caught.value.code


@for_each(
    "prefix, deleted, subjects",
    [
        ("", Deleted.EXCLUDED, ["a", "ab", ":.c:a"]),
        ("", Deleted.INCLUDED, ["a", "ab", "b", ":.c:a"]),
        ("", Deleted.ONLY, ["b"]),
        (":*:", Deleted.EXCLUDED, ["a", "ab", ":.c:a"]),
        (":*:a", Deleted.EXCLUDED, ["a", "ab", ":.c:a"]),
        ("a", Deleted.EXCLUDED, ["a", "ab"]),
        ("ab", Deleted.EXCLUDED, ["ab"]),
        (":.c:", Deleted.EXCLUDED, [":.c:a"]),
        (":.:", Deleted.EXCLUDED, ["a", "ab"]),
        (":.d:", Deleted.EXCLUDED, []),
    ],
)
def test_subjects_are_those_of_a_prefix_in_one_or_all_contexts(
    filled: LoggedRegistry, prefix: str, deleted: Deleted, subjects: list[str]
) -> None:
    assert list(map(str, filled.catalog.subjects(prefix, deleted))) == subjects


def test_versions_are_shown_as_asked(filled: LoggedRegistry) -> None:
    versions = filled.catalog.versions
    for deleted, numbers in ((Deleted.EXCLUDED, [2]), (Deleted.INCLUDED, [1, 2]), (Deleted.ONLY, [1])):
        assert [one.version for one in versions(name("a"), deleted)] == numbers
    assert code(lambda: versions(name("b"))) == 40401
    assert [one.version for one in versions(name("b"), Deleted.INCLUDED)] == [1]


def test_version_is_found_by_number_and_as_latest(filled: LoggedRegistry) -> None:
    version = filled.catalog.version
    assert version(name("a"), "latest").version == version(name("a"), "-1").version == 2
    assert version(name("a"), "1", Deleted.INCLUDED).version == 1
    assert code(lambda: version(name("a"), "1")) == 40402
    assert code(lambda: version(name("a"), "3")) == 40402
    assert code(lambda: version(name("b"), "1")) == 40401
    assert code(lambda: version(name("x"), "latest")) == 40401


@for_each("text", ["0", "-2", "", "one", "1.0", "+1", " 1", "2147483648", "9" * 1000, "٣"])
def test_other_texts_are_no_versions(text: str) -> None:
    assert code(lambda: parse_version(text)) == 42202


def test_versions_of_all_subjects_come_in_order_or_the_latest_of_each(filled: LoggedRegistry) -> None:
    def listed(*options: Any, **more: Any) -> list[tuple[str, int]]:
        return [(str(one.subject), one.version) for one in filled.catalog.all_versions(*options, **more)]

    assert listed() == [("a", 2), ("ab", 1), (":.c:a", 1)]
    assert listed("a", Deleted.INCLUDED) == [("a", 1), ("a", 2), ("ab", 1)]
    assert listed("a", Deleted.INCLUDED, is_latest_only=True) == [("a", 2), ("ab", 1)]


def test_id_is_looked_for_in_the_context_of_the_subject(filled: LoggedRegistry) -> None:
    schema = filled.catalog.schema
    assert schema(1).content.text == STRING
    assert schema(1, name(":.c:")).content.text == LONG
    assert code(lambda: schema(2, name(":.c:a"))) == 40403
    assert code(lambda: schema(7)) == 40403


def test_id_with_a_subject_without_context_is_found_where_the_subject_has_it(registry: LoggedRegistry) -> None:
    registry.add("a", STRING)
    registry.add(":.c:only", LONG)
    assert registry.catalog.schema(1, name("only")).content.text == LONG
    assert registry.catalog.schema(1, name("a")).content.text == STRING
    assert registry.catalog.schema(1, name("none")).content.text == STRING


def test_id_is_found_as_long_as_a_version_has_it_soft_deleted_or_not(filled: LoggedRegistry) -> None:
    def subjects(deleted: Deleted) -> list[str]:
        return [str(one.subject) for one in filled.catalog.schema_versions(1, None, deleted)]

    assert subjects(Deleted.EXCLUDED) == ["ab"]
    assert subjects(Deleted.INCLUDED) == ["a", "ab", "b"]
    assert code(lambda: filled.catalog.schema_versions(9)) == 40403


def test_guid_is_found_in_every_context(filled: LoggedRegistry) -> None:
    guid = filled.catalog.schema(1).guid
    assert {str(one.subject) for one in filled.catalog.schema_of_guid(guid.upper())} == {"a", "ab", "b"}
    assert code(lambda: filled.catalog.schema_of_guid("x" * 36)) == 40403


def test_max_id_is_of_the_context(filled: LoggedRegistry) -> None:
    assert (filled.catalog.max_id(), filled.catalog.max_id(name(":.c:x")), filled.catalog.max_id(name(":.d:"))) == (
        2,
        1,
        0,
    )
    assert filled.catalog.contexts() == [".", ".c"]


def test_referrers_are_those_that_are_not_deleted(registry: LoggedRegistry) -> None:
    named = '{"type":"enum","name":"E","symbols":["A"]}'
    registry.add("e", named)
    for subject in ("u", "v"):
        registry.add(subject, '{"type":"array","items":"E"}', references=(reference("e", name="E"),))
    registry.delete_subject(name("v"))
    assert [str(one.subject) for one in registry.catalog.referrers(name("e"), "latest")] == ["u"]
    assert code(lambda: registry.catalog.referrers(name("e"), "2")) == 40402


def test_config_of_a_scope_is_its_own_or_what_holds(registry: LoggedRegistry) -> None:
    config = registry.catalog.config
    assert config(None) == {"compatibilityLevel": "BACKWARD"}
    assert code(lambda: config(name("a"))) == 40408
    registry.update_config(None, {"compatibilityLevel": "FULL"})
    registry.update_config(name(":.c:"), {"normalize": True})
    registry.update_config(name(":.c:a"), {"alias": "b"})
    assert config(name(":.c:a")) == {"alias": "b"}
    assert config(name(":.c:a"), is_inherited=True) == {
        "alias": "b",
        "normalize": True,
        "compatibilityLevel": "FULL",
    }
    assert config(name(":.c:x"), is_inherited=True) == {"normalize": True, "compatibilityLevel": "FULL"}


def test_mode_of_a_scope_is_its_own_or_what_holds(registry: LoggedRegistry) -> None:
    mode = registry.catalog.mode
    assert mode(None) == "READWRITE"
    assert code(lambda: mode(name("a"))) == 40409
    registry.update_mode(name(":.__GLOBAL:"), "READONLY")
    registry.update_mode(name("a"), "IMPORT")
    assert mode(name("a")) == mode(name("a"), is_inherited=True) == "IMPORT"
    assert mode(name(":.c:a"), is_inherited=True) == mode(None) == "READONLY"


def test_alias_stands_for_a_subject_of_its_context(registry: LoggedRegistry) -> None:
    registry.update_config(name(":.c:short"), {"alias": "long"})
    assert registry.catalog.subject_of_alias(name(":.c:short")) == name(":.c:long")
    assert registry.catalog.subject_of_alias(name("short")) == name("short")
