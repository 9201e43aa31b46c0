from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from kqueue.schema_registry.catalog import Deleted
from kqueue.schema_registry.errors import RegistryError
from kqueue.schema_registry.limits import DEFAULT_LIMITS
from kqueue.schema_registry.registry import Registry, SchemaRequest
from kqueue.schema_registry.schema_content import SchemaContent
from kqueue.schema_registry.schema_log import InMemorySchemaLog, StoredRecordTooLarge, StoreUnavailable
from kqueue.tests.schema_registry.support import (
    INT,
    LONG,
    NOW_MS,
    STRING,
    LoggedRegistry,
    content,
    name,
    record,
    reference,
    request,
)
from kqueue.tests.tables import for_each

NAMED = '{"type":"enum","name":"E","symbols":["A"]}'
USER = '{"type":"array","items":"E"}'


def refused(call: Any, code: int) -> str:
    """Return the sentence of the error that a call raises, which must have this number."""
    with pytest.raises(RegistryError) as caught:
        call()
    assert caught.value.code == code, caught.value
    return str(caught.value)


# --- register


def test_schema_gets_the_next_version_and_id(registry: LoggedRegistry) -> None:
    first, second = registry.add("a", INT), registry.add("a", LONG)
    assert (first.version, first.id, second.version, second.id) == (1, 1, 2, 2)
    assert second.timestamp_ms == NOW_MS
    assert registry.logged_keys() == [
        {"keytype": "SCHEMA", "subject": "a", "version": version, "magic": 1} for version in (1, 2)
    ]


def test_schema_that_is_there_is_returned_and_nothing_is_written(registry: LoggedRegistry) -> None:
    version = registry.add("a", '{"type": "string"}')
    assert registry.add("a", STRING) == version
    assert registry.find_registered(name("a"), request(STRING)) == version
    assert registry.find_registered(name("a"), request(INT)) is None
    assert registry.find_registered(name("b"), request(STRING)) is None
    assert len(registry.log.records) == 1


def test_schema_has_one_id_in_all_subjects_of_a_context(registry: LoggedRegistry) -> None:
    ids = [registry.add(subject, STRING).id for subject in ("a", "b", ":.c:a", ":.c:b")]
    registry.add("c", INT)
    assert ids == [1, 1, 1, 1]
    assert registry.add(":.c:c", LONG).id == 2


def test_schema_that_was_soft_deleted_gets_a_new_version_with_its_id(registry: LoggedRegistry) -> None:
    registry.add("a", STRING)
    registry.delete_subject(name("a"))
    again = registry.add("a", STRING)
    assert (again.version, again.id) == (2, 1)


def test_ids_of_schemas_that_were_deleted_permanently_are_not_given_again(registry: LoggedRegistry) -> None:
    registry.add("a", STRING)
    registry.delete_subject(name("a"))
    registry.delete_subject(name("a"), is_permanent=True)
    again = registry.add("a", INT)
    assert (again.version, again.id) == (1, 2)


def test_incompatible_schema_is_refused_with_what_differs(registry: LoggedRegistry) -> None:
    registry.add("a", STRING)
    sentence = refused(lambda: registry.add("a", INT), 409)
    assert "'a', at level BACKWARD" in sentence
    assert "TYPE_MISMATCH" in sentence
    registry.update_config(name("a"), {"compatibilityLevel": "NONE"})
    assert registry.add("a", INT).version == 2


@for_each("level, version", [("BACKWARD", 3), ("BACKWARD_TRANSITIVE", None), ("FULL_TRANSITIVE", None)])
def test_only_transitive_levels_compare_with_all_versions(level: str, version: int | None) -> None:
    registry = LoggedRegistry(compatibility="NONE")
    registry.add("a", record("R", ("x", "string")))
    registry.add("a", record("R", ("y", "string")))
    registry.update_config(None, {"compatibilityLevel": level})
    newest = record("R", ("y", "string"), ("x", "int", 1))
    if version is None:
        refused(lambda: registry.add("a", newest), 409)
    else:
        assert registry.add("a", newest).version == version


def test_soft_deleted_versions_are_not_compared_with(registry: LoggedRegistry) -> None:
    registry.add("a", STRING)
    registry.delete_version(name("a"), "1")
    assert registry.add("a", INT).version == 2


def test_versions_of_other_compatibility_groups_are_not_compared_with(registry: LoggedRegistry) -> None:
    registry.update_config(name("a"), {"compatibilityGroup": "major"})
    first, second = ({"properties": {"major": major}} for major in "12")
    registry.add("a", STRING, metadata=first)
    assert registry.add("a", INT, metadata=second).version == 2
    refused(lambda: registry.add("a", LONG + " ", metadata=first), 409)


def test_version_that_can_not_be_parsed_is_not_compatible(registry: LoggedRegistry) -> None:
    value = b'{"subject":"a","version":1,"id":1,"schema":"no schema","deleted":false}'
    registry.log.append(b'{"keytype":"SCHEMA","subject":"a","version":1,"magic":1}', value)
    assert "version 1 can't be compared" in refused(lambda: registry.add("a", INT), 409)


def test_text_is_normalized_where_the_request_or_the_config_says_so(registry: LoggedRegistry) -> None:
    text = '{"type":"record","name":"R","fields":[],"doc":"d","aliases":["B","A"]}'
    plain = registry.register(name("a"), request(text))
    normalized = registry.register(name("b"), request(text), is_normalized=True)
    registry.update_config(name("c"), {"normalize": True})
    assert registry.add("c", text).content == normalized.content
    assert plain.content.text != normalized.content.text


@for_each(
    "text, more, code",
    [
        ("no schema", {}, 42201),
        ('{"type":"record"}', {}, 42201),
        (USER, {}, 42201),
        (USER, {"references": (reference("none", name="E"),)}, 42201),
    ],
)
def test_text_that_is_no_schema_is_refused(text: str, more: dict[str, Any], code: int) -> None:
    registry = LoggedRegistry()
    refused(lambda: registry.add("a", text, **more), code)
    assert registry.log.records == []


def test_unknown_schema_type_is_refused(registry: LoggedRegistry) -> None:
    thrift = SchemaRequest(SchemaContent("THRIFT", "x"))
    assert "AVRO, JSON, PROTOBUF" in refused(lambda: registry.register(name("a"), thrift), 42201)


def test_reference_to_the_newest_is_stored_as_the_version_that_it_is(registry: LoggedRegistry) -> None:
    registry.add("e", NAMED)
    version = registry.add("u", USER, references=(reference("e", -1, "E"),))
    assert version.content.references == (reference("e", 1, "E"),)
    assert registry.logged_values()[-1]["references"] == [{"name": "E", "subject": "e", "version": 1}]


def test_schema_that_is_there_in_another_form_is_not_registered_again_in_normal_form(registry: LoggedRegistry) -> None:
    text = '{"type":"record","name":"R","fields":[],"doc":"d","aliases":["B","A"]}'
    version = registry.add("a", text)
    assert registry.register(name("a"), request(text), is_normalized=True) == version
    registry.update_config(name("a"), {"normalize": True})
    assert registry.add("a", text) == version
    assert registry.look_up(name("a"), content(text)) == version


def test_first_schema_of_a_context_writes_that_the_context_exists(registry: LoggedRegistry) -> None:
    for subject in (":.c:a", ":.c:b", "a"):
        registry.add(subject, INT)
    assert [key["keytype"] for key in registry.logged_keys()] == ["CONTEXT", "SCHEMA", "SCHEMA", "SCHEMA"]
    assert registry.logged_values()[0] == {"tenant": "default", "context": ".c"}


def test_version_given_by_a_client_must_be_the_next(registry: LoggedRegistry) -> None:
    assert registry.register(name("a"), request(INT, version=1)).version == 1
    refused(lambda: registry.register(name("a"), request(LONG, version=3)), 42201)
    refused(lambda: registry.register(name("a"), request(INT, version=7)), 42201)
    assert registry.register(name("a"), request(LONG, version=2)).version == 2


def test_schemas_that_are_registered_at_once_get_versions_and_ids_of_their_own(registry: LoggedRegistry) -> None:
    registry.update_config(None, {"compatibilityLevel": "NONE"})
    texts = [record("R", (f"x{number}", "int")) for number in range(40)] * 2
    with ThreadPoolExecutor(8) as threads:
        versions = list(threads.map(lambda text: registry.add("a", text), texts))
    assert versions[:40] == versions[40:]
    assert sorted(one.version for one in versions[:40]) == sorted(one.id for one in versions[:40]) == list(range(1, 41))


# --- metadata and rules

RULES = {"domainRules": [{"name": "r", "kind": "TRANSFORM", "mode": "READ", "type": "CEL", "disabled": False}]}


def test_metadata_and_rules_are_those_of_the_version_before_unless_given(registry: LoggedRegistry) -> None:
    first = registry.add("a", INT, metadata={"properties": {"owner": "x"}}, rule_set=RULES)
    assert registry.add("a", INT) == first
    second = registry.add("a", LONG)
    assert (second.content.metadata, second.content.rule_set) == (first.content.metadata, RULES)
    third = registry.add("a", LONG, metadata={})
    assert (third.version, third.content.metadata, third.content.rule_set) == (3, {}, RULES)


def test_defaults_and_overrides_of_the_config_are_merged_in(registry: LoggedRegistry) -> None:
    registry.update_config(
        None,
        {
            "defaultMetadata": {"properties": {"owner": "nobody", "team": "t"}},
            "overrideMetadata": {"properties": {"registry": "r"}},
            "overrideRuleSet": RULES,
        },
    )
    version = registry.add("a", INT, metadata={"properties": {"owner": "x", "registry": "mine"}})
    assert version.content.metadata == {"properties": {"owner": "x", "registry": "r", "team": "t"}}
    assert version.content.rule_set == RULES


def test_same_text_with_other_metadata_is_another_schema(registry: LoggedRegistry) -> None:
    assert registry.add("a", INT).id == 1
    assert registry.add("a", INT, metadata={"properties": {"a": "b"}}).id == 2


# --- look up


def test_look_up_finds_the_version_with_the_schema(registry: LoggedRegistry) -> None:
    registry.add("a", INT)
    registry.add("a", LONG)
    assert registry.look_up(name("a"), content(INT)).version == 1
    refused(lambda: registry.look_up(name("a"), content(STRING)), 40403)
    refused(lambda: registry.look_up(name("b"), content(INT)), 40401)
    refused(lambda: registry.look_up(name("a"), content("no schema")), 42201)


def test_look_up_finds_soft_deleted_versions_if_asked(registry: LoggedRegistry) -> None:
    registry.add("a", INT)
    registry.add("a", LONG)
    registry.delete_version(name("a"), "1")
    refused(lambda: registry.look_up(name("a"), content(INT)), 40403)
    assert registry.look_up(name("a"), content(INT), deleted=Deleted.INCLUDED).is_deleted


def test_normalized_look_up_finds_a_schema_that_was_registered_as_it_was(registry: LoggedRegistry) -> None:
    text = '{"type":"record","name":"R","fields":[],"doc":"d","aliases":["B","A"]}'
    version = registry.add("a", text)
    registry.add("a", record("R", ("x", "int", 1)))
    assert registry.look_up(name("a"), content(text), is_normalized=True) == version


def test_look_up_without_metadata_finds_any_version_with_the_text_and_one_without_first(
    registry: LoggedRegistry,
) -> None:
    for owner in ("x", "y"):
        registry.add("a", INT, metadata={"properties": {"owner": owner}})
    assert registry.look_up(name("a"), content(INT)).version == 2
    assert registry.look_up(name("a"), content(INT, metadata={"properties": {"owner": "x"}})).version == 1
    refused(lambda: registry.look_up(name("a"), content(INT, metadata={})), 40403)
    registry.add("a", INT, metadata={}, rule_set={})
    registry.add("b", INT)
    registry.add("b", INT, metadata={"properties": {"owner": "x"}})
    assert registry.look_up(name("b"), content(INT)).version == registry.add("b", INT).version == 1


# --- compatibility


def test_compatibility_is_checked_without_a_change(registry: LoggedRegistry) -> None:
    registry.add("a", STRING)
    assert registry.check_compatibility(name("a"), content(STRING)) == []
    assert any("TYPE_MISMATCH" in one for one in registry.check_compatibility(name("a"), content(INT)))
    assert registry.check_compatibility(name("none"), content(INT)) == []
    refused(lambda: registry.check_compatibility(name("a"), content("no schema")), 42201)
    assert len(registry.log.records) == 1


def test_compatibility_with_one_version_is_with_that_version() -> None:
    registry = LoggedRegistry(compatibility="NONE")
    registry.add("a", STRING)
    registry.add("a", INT)
    registry.update_config(None, {"compatibilityLevel": "BACKWARD_TRANSITIVE"})
    assert registry.check_compatibility(name("a"), content(LONG), "2") == []
    assert registry.check_compatibility(name("a"), content(LONG), "latest") == []
    assert registry.check_compatibility(name("a"), content(LONG), "1") != []
    assert registry.check_compatibility(name("a"), content(LONG)) != []
    assert registry.check_compatibility(name("none"), content(LONG), "latest") == []
    refused(lambda: registry.check_compatibility(name("a"), content(LONG), "3"), 40402)
    refused(lambda: registry.check_compatibility(name("none"), content(LONG), "1"), 40401)
    refused(lambda: registry.check_compatibility(name("a"), content(LONG), "x"), 42202)


# --- deletions


def test_version_is_deleted_softly_then_permanently(registry: LoggedRegistry) -> None:
    registry.add("a", INT)
    registry.add("a", LONG)
    refused(lambda: registry.delete_version(name("a"), "1", is_permanent=True), 40407)
    assert registry.delete_version(name("a"), "1") == 1
    refused(lambda: registry.delete_version(name("a"), "1"), 40406)
    assert registry.catalog.schema(1).is_deleted
    assert registry.delete_version(name("a"), "1", is_permanent=True) == 1
    refused(lambda: registry.delete_version(name("a"), "1", is_permanent=True), 40402)
    refused(lambda: registry.catalog.schema(1), 40403)
    assert registry.delete_version(name("a"), "latest") == 2
    refused(lambda: registry.delete_version(name("a"), "latest"), 40401)
    refused(lambda: registry.delete_version(name("b"), "1"), 40401)
    assert registry.logged_values()[-3]["deleted"] is True
    assert registry.logged_values()[-2] is None


def test_subject_is_deleted_softly_then_permanently(registry: LoggedRegistry) -> None:
    registry.add("a", INT)
    registry.add("a", LONG)
    refused(lambda: registry.delete_subject(name("a"), is_permanent=True), 40405)
    assert registry.delete_subject(name("a")) == [1, 2]
    assert registry.logged_keys()[-1] == {"keytype": "DELETE_SUBJECT", "subject": "a", "magic": 0}
    assert registry.logged_values()[-1] == {"subject": "a", "version": 2}
    refused(lambda: registry.delete_subject(name("a")), 40404)
    assert registry.delete_subject(name("a"), is_permanent=True) == [1, 2]
    refused(lambda: registry.delete_subject(name("a"), is_permanent=True), 40401)


def test_soft_delete_of_a_subject_covers_what_earlier_ones_did() -> None:
    registry = LoggedRegistry(mode="IMPORT")
    for version in (2, 1):
        registry.register(name("a"), request(INT, id=1, version=version))
        assert registry.delete_subject(name("a")) == [version]
    assert [value["version"] for value in registry.logged_values()[1::2]] == [2, 2]


def test_config_and_mode_of_a_subject_go_with_its_last_version(registry: LoggedRegistry) -> None:
    for delete in (registry.delete_subject, lambda subject: registry.delete_version(subject, "latest")):
        registry.add("a", INT)
        registry.update_config(name("a"), {"compatibilityLevel": "NONE"})
        registry.update_mode(name("a"), "READWRITE")
        delete(name("a"))
        refused(lambda: registry.catalog.config(name("a")), 40408)
        refused(lambda: registry.catalog.mode(name("a")), 40409)


def test_referenced_version_is_not_deleted_before_what_refers_to_it(registry: LoggedRegistry) -> None:
    registry.add("e", NAMED)
    user = registry.add("u", USER, references=(reference("e", name="E"),))
    assert f"schema {user.id}" in refused(lambda: registry.delete_version(name("e"), "1"), 42206)
    refused(lambda: registry.delete_subject(name("e")), 42206)
    registry.delete_subject(name("u"))
    assert registry.delete_subject(name("e")) == [1]


def test_tombstones_are_written_for_keys_of_older_registries_too(registry: LoggedRegistry) -> None:
    old_key = b'{"subject":"a","version":1,"magic":0,"keytype":"SCHEMA"}'
    registry.log.append(old_key, b'{"subject":"a","version":1,"id":1,"schema":"\\"int\\"","deleted":true}')
    registry.delete_version(name("a"), "1", is_permanent=True)
    assert [(one.key, one.value) for one in registry.log.records[1:]] == [
        (old_key, None),
        (b'{"keytype":"SCHEMA","subject":"a","version":1,"magic":1}', None),
    ]


# --- configs and modes


def test_config_is_updated_and_deleted(registry: LoggedRegistry) -> None:
    assert registry.update_config(name("a"), {"compatibilityLevel": "FULL"}) == {"compatibilityLevel": "FULL"}
    registry.update_config(name("a"), {"normalize": True})
    assert registry.logged_values()[-1] == {"subject": "a", "normalize": True, "compatibilityLevel": "FULL"}
    assert registry.delete_config(name("a")) == {"normalize": True, "compatibilityLevel": "FULL"}
    assert (registry.logged_keys()[-1]["subject"], registry.logged_values()[-1]) == ("a", None)
    refused(lambda: registry.delete_config(name("a")), 40401)


def test_config_of_all_can_always_be_deleted(registry: LoggedRegistry) -> None:
    assert registry.delete_config(None) == {"compatibilityLevel": "BACKWARD"}
    assert registry.log.records == []
    registry.update_config(None, {"compatibilityLevel": "NONE"})
    assert registry.delete_config(None) == {"compatibilityLevel": "NONE"}
    assert registry.catalog.config(None) == {"compatibilityLevel": "BACKWARD"}


def test_mode_is_updated_and_deleted(registry: LoggedRegistry) -> None:
    registry.update_mode(name("a"), "READONLY")
    assert registry.logged_values() == [{"subject": "a", "mode": "READONLY"}]
    assert registry.delete_mode(name("a")) == "READONLY"
    refused(lambda: registry.delete_mode(name("a")), 40401)
    assert registry.delete_mode(None) == "READWRITE"


@for_each("mode", ["READONLY", "READONLY_OVERRIDE", "FORWARD"])
def test_nothing_changes_in_modes_that_only_read(mode: str) -> None:
    registry = LoggedRegistry()
    registry.add("a", INT)
    registry.delete_version(name("a"), "1")
    registry.add("a", LONG)
    registry.update_mode(None, mode)
    count = len(registry.log.records)
    for change in (
        lambda: registry.add("a", STRING),
        lambda: registry.delete_version(name("a"), "2"),
        lambda: registry.delete_subject(name("a")),
        lambda: registry.delete_version(name("a"), "1", is_permanent=True),
        lambda: registry.update_config(name("a"), {"normalize": True}),
        lambda: registry.delete_config(None),
    ):
        assert mode in refused(change, 42205)
    assert registry.add("a", LONG).version == 2
    assert len(registry.log.records) == count
    registry.update_mode(None, "READWRITE")
    assert registry.add("b", INT).version == 1


def test_subject_may_allow_what_all_do_not_unless_they_override(registry: LoggedRegistry) -> None:
    registry.update_mode(None, "READONLY")
    registry.update_mode(name("a"), "READWRITE")
    assert registry.add("a", INT).version == 1
    registry.update_mode(None, "READONLY_OVERRIDE")
    refused(lambda: registry.add("a", LONG), 42205)


# --- import


def importing(registry: LoggedRegistry, scope: str = "a") -> LoggedRegistry:
    registry.update_mode(name(scope), "IMPORT")
    return registry


def test_ids_are_given_by_clients_in_mode_import_only(registry: LoggedRegistry) -> None:
    assert "not in mode IMPORT" in refused(lambda: registry.register(name("a"), request(INT, id=5)), 42205)
    importing(registry)
    assert "needs an id" in refused(lambda: registry.add("a", INT), 42205)
    version = registry.register(name("a"), request(INT, id=5, version=7))
    assert (version.id, version.version) == (5, 7)
    assert registry.register(name("a"), request(INT, id=5, version=7)) == version


def test_import_compares_nothing_and_may_come_in_any_order(registry: LoggedRegistry) -> None:
    importing(registry)
    registry.register(name("a"), request(STRING, id=5, version=2))
    registry.register(name("a"), request(INT, id=4, version=1))
    assert [one.version for one in registry.catalog.versions(name("a"))] == [1, 2]
    assert registry.register(name("a"), request(LONG, id=9)).version == 3
    registry.update_mode(name("a"), "READWRITE")
    assert registry.add("b", STRING).id == 5
    assert registry.add("b2", '"bytes"').id == 10


def test_import_adds_no_metadata(registry: LoggedRegistry) -> None:
    registry.update_config(None, {"overrideMetadata": {"properties": {"registry": "r"}}})
    registry.add("a", STRING)
    registry.update_mode(name("a"), "IMPORT", is_forced=True)
    assert registry.register(name("a"), request(INT, id=5)).content.metadata is None


def test_import_does_not_replace_an_id_or_a_version(registry: LoggedRegistry) -> None:
    importing(registry)
    registry.register(name("a"), request(STRING, id=5, version=1))
    refused(lambda: registry.register(name("a"), request(INT, id=5)), 42207)
    refused(lambda: registry.register(name("a"), request(INT, id=6, version=1)), 42205)


def test_import_restores_a_soft_deleted_version(registry: LoggedRegistry) -> None:
    importing(registry)
    registry.register(name("a"), request(STRING, id=5, version=1))
    registry.register(name("a"), request(INT, id=6, version=2))
    registry.delete_version(name("a"), "1")
    assert not registry.register(name("a"), request(STRING, id=5, version=1)).is_deleted


def test_mode_import_needs_force_where_schemas_are(registry: LoggedRegistry) -> None:
    registry.add(":.c:a", INT)
    for scope in (name(":.c:a"), name(":.c:"), None):
        refused(lambda scope=scope: registry.update_mode(scope, "IMPORT"), 42205)
        registry.update_mode(scope, "IMPORT", is_forced=True)
    registry.update_mode(name(":.d:"), "IMPORT")
    registry.update_mode(name("other"), "IMPORT")


# --- the log


class FailingLog(InMemorySchemaLog):
    """A log that raises, or forgets to pass records on."""

    def __init__(self, error: Exception | None = None) -> None:
        super().__init__()
        self.error = error

    def append(self, key: bytes, value: bytes | None) -> int:
        if self.error is not None:
            raise self.error
        return 7


@for_each("error, code", [(StoreUnavailable("no broker"), 50001), (StoredRecordTooLarge("1 MB is allowed"), 42209)])
def test_change_that_the_log_does_not_take_is_an_error(error: Exception, code: int) -> None:
    registry = Registry(FailingLog(error))
    assert str(error) in refused(lambda: registry.register(name("a"), request(INT)), code)
    assert registry.catalog.subjects() == []


def test_change_that_does_not_come_back_is_an_error() -> None:
    registry = Registry(FailingLog(), apply_timeout_s=0)
    refused(lambda: registry.register(name("a"), request(INT)), 50002)


def test_change_waits_for_the_records_of_earlier_ones() -> None:
    log = InMemorySchemaLog()
    registry = Registry(log, apply_timeout_s=0)
    refused(lambda: registry.register(name("a"), request(INT)), 50002)
    refused(lambda: registry.register(name("b"), request(LONG)), 50002)
    assert len(log.records) == 1
    log.follow(registry.apply)
    assert registry.register(name("b"), request(LONG)).id == 2


def test_full_registry_takes_deletions_and_nothing_more() -> None:
    registry = LoggedRegistry(limits=DEFAULT_LIMITS._replace(stored_bytes_max=250))
    registry.add("a", INT)
    registry.add("b", LONG)
    assert "at most 250" in refused(lambda: registry.add(":.c:c", STRING), 42205)
    refused(lambda: registry.update_config(name("a"), {"alias": "x" * 100}), 42205)
    assert len(registry.log.records) == 2
    registry.delete_version(name("a"), "1")
    registry.delete_subject(name("b"))
    registry.delete_version(name("a"), "1", is_permanent=True)
    registry.delete_subject(name("b"), is_permanent=True)
    assert registry.add("c", STRING).version == 1


def test_guid_by_which_another_registry_stored_a_schema_finds_it() -> None:
    registry = LoggedRegistry()
    value = b'{"subject":"a","version":1,"id":1,"md5":"ABEiM0RVZneImaq7zN3u/w==","schema":"\\"int\\"","deleted":false}'
    registry.log.append(b'{"keytype":"SCHEMA","subject":"a","version":1,"magic":1}', value)
    registry.delete_version(name("a"), "1")
    [version] = registry.catalog.schema_of_guid("00112233-4455-6677-8899-aabbccddeeff")
    assert (version.id, version.is_deleted) == (1, True)
    assert registry.logged_values()[-1]["md5"] == "ABEiM0RVZneImaq7zN3u/w=="


def test_registry_reads_what_another_one_wrote() -> None:
    first = LoggedRegistry()
    first.add("a", INT)
    second = LoggedRegistry(first.log)
    assert second.applied_offset == 0
    assert second.wait_for(0, timeout_s=0)
    assert not second.wait_for(1, timeout_s=0)
    assert second.catalog.schema(1).content.text == INT
