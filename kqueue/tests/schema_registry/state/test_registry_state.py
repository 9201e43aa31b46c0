from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kqueue.schema_registry.records import (
    ClearSubjectKey,
    ConfigKey,
    ContextKey,
    DeleteSubjectKey,
    ModeKey,
    NoopKey,
    RegistryRecord,
    SchemaKey,
    SchemaValue,
)
from kqueue.schema_registry.state.registry_state import GLOBAL_SCOPE, RegistryState, scope_of, scopes_of
from kqueue.schema_registry.subject_names import parse_subject
from kqueue.tests.schema_registry.support import INT, content, name, reference


def state_of(*records: tuple[Any, Any]) -> RegistryState:
    state = RegistryState()
    for key, value in records:
        state.apply(RegistryRecord(key, value))
    return state


def schema(subject: str, version: int, id: int = 1, text: str = INT, is_deleted: bool = False) -> tuple[Any, Any]:
    return SchemaKey(subject, version), SchemaValue(id, content(text), is_deleted)


def numbers(state: RegistryState, subject: str = "s") -> tuple[list[int], list[int]]:
    versions = state.versions(name(subject), is_deleted_included=True)
    return [one.version for one in versions if not one.is_deleted], [one.version for one in versions if one.is_deleted]


def test_versions_are_in_their_order_whatever_that_of_the_records() -> None:
    assert numbers(state_of(schema("s", 3), schema("s", 1), schema("s", 2))) == ([1, 2, 3], [])


def test_later_record_of_a_version_replaces_the_earlier_one() -> None:
    state = state_of(schema("s", 1, 1), schema("s", 2, 2), schema("s", 1, 3, is_deleted=True))
    assert numbers(state) == ([2], [1])
    version = state.version(name("s"), 1)
    assert version is not None
    assert version.id == 3
    assert state.schemas.any_version(".", 1) is None


def test_name_with_and_without_the_default_context_is_one_subject() -> None:
    assert state_of(schema("s", 1), schema(":.:s", 2)).subjects() == [name("s")]


def test_latest_version_is_the_newest_that_is_not_deleted() -> None:
    state = state_of(schema("s", 1), schema("s", 2, is_deleted=True))
    latest, newest = state.latest(name("s")), state.latest(name("s"), is_deleted_included=True)
    assert latest is not None
    assert newest is not None
    assert (latest.version, newest.version) == (1, 2)
    assert state.latest(name("other")) is None
    assert state.has_subject(name("s"))


def test_soft_delete_of_a_subject_deletes_up_to_its_version() -> None:
    state = state_of(schema("s", 1), schema("s", 2), (DeleteSubjectKey("s"), 1), schema("s", 3))
    assert numbers(state) == ([2, 3], [1])
    assert numbers(state_of(schema("s", 1), (DeleteSubjectKey("s"), None))) == ([1], [])


def test_tombstone_deletes_a_version_and_the_last_one_its_subject() -> None:
    state = state_of(schema("s", 1), schema("s", 2), (SchemaKey("s", 1), None), (SchemaKey("x", 1), None))
    assert numbers(state) == ([2], [])
    state.apply(RegistryRecord(SchemaKey("s", 2), None))
    assert state.subjects() == []
    assert state.schemas.max_id(".") == 1


def test_clear_forgets_soft_deleted_versions() -> None:
    records = schema("s", 1), (DeleteSubjectKey("s"), 1), schema("s", 2)
    assert numbers(state_of(*records, (ClearSubjectKey("s"), True))) == ([2], [])
    assert numbers(state_of(*records, (ClearSubjectKey("s"), None))) == ([2], [1])


def test_references_of_a_version_end_with_it() -> None:
    user = SchemaKey("user", 1), SchemaValue(2, content(references=(reference("s"),)))
    state = state_of(schema("s", 1), user)
    assert len(state.references.referrers(name("s"), 1)) == 1
    state.apply(RegistryRecord(DeleteSubjectKey("user"), 1))
    assert state.references.referrers(name("s"), 1) == []


def test_configs_and_modes_are_of_exactly_their_scope_until_a_tombstone() -> None:
    state = state_of((ConfigKey(None), {"normalize": True}), (ModeKey(":.c:"), {"mode": "IMPORT"}))
    assert state.config(None) == {"normalize": True}
    assert state.config(name("s")) is None
    assert state.mode(name(":.c:")) == "IMPORT"
    assert state.mode(None) is None
    state.apply(RegistryRecord(ConfigKey(":.:"), None))
    state.apply(RegistryRecord(ModeKey(":.c:"), {"mode": 7}))
    assert state.config(None) is state.mode(name(":.c:")) is None


def test_contexts_are_those_with_schemas_and_those_of_records() -> None:
    state = state_of(schema(":.c:s", 1), (ContextKey(".d"), True), (ContextKey(".e"), True), (ContextKey(".e"), None))
    assert state.contexts() == [".", ".c", ".d"]
    assert [state.has_context(context) for context in (".", ".c", ".d", ".e")] == [True, False, True, False]


CONTENTS = st.sampled_from([content(INT), content(), content(references=(reference("s"), reference(":.:t", 2)))])
NAMES = st.sampled_from(["s", "t", ":.:t", ":.c:s"])
RECORDS = st.one_of(
    st.tuples(
        st.builds(SchemaKey, NAMES, st.integers(1, 3)),
        st.none() | st.builds(SchemaValue, st.integers(0, 2), CONTENTS, st.booleans(), st.none() | st.just(bytes(16))),
    ),
    st.tuples(st.builds(DeleteSubjectKey, NAMES), st.none() | st.integers(0, 3)),
    st.tuples(st.builds(ClearSubjectKey, NAMES), st.sampled_from([None, True])),
)


@given(st.lists(RECORDS, max_size=30))
def test_every_index_says_what_the_versions_say_whatever_the_records(records: list[tuple[Any, Any]]) -> None:
    state = state_of(*records)
    versions = [one for subject in state.subjects() for one in state.versions(subject, is_deleted_included=True)]
    assert [one.version for one in versions] == [
        one.version for one in sorted(versions, key=lambda one: (one.subject, one.version))
    ]
    for context in (".", ".c"):
        for id in range(3):
            having = [one for one in versions if (one.subject.context, one.id) == (context, id)]
            assert sorted(state.schemas.versions(context, id), key=repr) == sorted(having, key=repr)
            assert (state.schemas.any_version(context, id) is None) == (not having)
    for version in versions:
        alike = [one for one in versions if (one.subject, one.content) == (version.subject, version.content)]
        subject = version.subject
        assert state.schemas.versions_of_content(subject.context, subject.subject, version.content) == alike
        assert (subject.context, version.id) in state.schemas.ids_of_md5(version.md5)
    for name_and_number in ((name("s"), 1), (name("t"), 2), (name(":.c:s"), 1)):
        referring = [
            one
            for one in versions
            if not one.is_deleted
            and any(
                (parse_subject(reference.subject, one.subject.context), reference.version) == name_and_number
                for reference in one.content.references
            )
        ]
        assert sorted(state.references.referrers(*name_and_number), key=repr) == sorted(referring, key=repr)
    assert all(state.schemas.max_id(one.subject.context) >= one.id for one in versions)


def test_noop_changes_nothing() -> None:
    assert state_of((NoopKey(), None)).subjects() == []


def test_scopes_go_from_the_subject_to_all() -> None:
    assert list(scopes_of(None)) == [None, GLOBAL_SCOPE]
    assert list(scopes_of(name("s"))) == [name("s"), None, GLOBAL_SCOPE]
    assert list(scopes_of(name(":.c:s"))) == [name(":.c:s"), name(":.c:"), GLOBAL_SCOPE, None]
    assert list(scopes_of(name(":.c:"))) == [name(":.c:"), GLOBAL_SCOPE, None]
    assert scope_of(name(":.:")) is None
    assert scope_of(name("s")) == name("s")
