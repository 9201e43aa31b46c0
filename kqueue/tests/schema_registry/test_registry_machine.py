"""Any sequence of operations, and the state of a registry that reads their log."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kqueue.schema_registry.catalog import Deleted
from kqueue.schema_registry.errors import RegistryError
from kqueue.schema_registry.registry import Registry
from kqueue.schema_registry.schema_log import InMemorySchemaLog
from kqueue.tests.schema_registry.support import INT, LONG, STRING, LoggedRegistry, content, name, reference, request
from kqueue.tests.thorough import examples

NAMED = '{"type":"enum","name":"E","symbols":["A"]}'
USER = '{"type":"array","items":"E"}'
SUBJECTS = st.sampled_from(["a", "b", ":.c:a"]).map(name)
SCOPES = SUBJECTS | st.sampled_from([None, name(":.c:")])
TEXTS = st.sampled_from([STRING, INT, LONG, NAMED])
VERSIONS = st.sampled_from(["latest", "1", "2", "3"])


def shown(registry: Registry) -> list[Any]:
    """All that a registry answers: versions, ids, references, configs and modes."""
    catalog = registry.catalog
    versions = list(catalog.all_versions(deleted=Deleted.INCLUDED))
    answers: list[Any] = [versions, catalog.subjects(), catalog.subjects(deleted=Deleted.ONLY), catalog.contexts()]
    for version in versions:
        answers += [
            catalog.schema_versions(version.id, name(f":{version.subject.context}:")),
            catalog.schema_of_guid(version.guid),
            catalog.referrers(version.subject, str(version.version), Deleted.INCLUDED),
            catalog.max_id(version.subject),
        ]
    for scope in (None, name("a"), name("b"), name(":.c:"), name(":.c:a")):
        answers += [catalog.config(scope, is_inherited=True), catalog.mode(scope, is_inherited=True)]
    return answers


class Operations(RuleBasedStateMachine):
    """Operations that may be refused; what holds of what they leave is checked after each."""

    def __init__(self) -> None:
        super().__init__()
        self.registry = LoggedRegistry()

    @contextlib.contextmanager
    def change(self) -> Iterator[None]:
        """A refused operation writes nothing."""
        count = len(self.registry.log.records)
        refusal = None
        try:
            yield
        except RegistryError as error:
            refusal = error
        if refusal is not None:
            assert 400 <= refusal.status < 500
            assert len(self.registry.log.records) == count

    @rule(subject=SUBJECTS, text=TEXTS)
    def register(self, subject: Any, text: str) -> None:
        with self.change():
            version = self.registry.register(subject, request(text))
            assert version == self.registry.look_up(subject, content(text, metadata=version.content.metadata))

    @rule(subject=SUBJECTS, other=SUBJECTS)
    def register_reference(self, subject: Any, other: Any) -> None:
        with self.change():
            self.registry.register(subject, request(USER, references=(reference(str(other), -1, "E"),)))

    @rule(subject=SUBJECTS, text=TEXTS, number=st.integers(1, 4), id=st.integers(1, 9))
    def import_version(self, subject: Any, text: str, number: int, id: int) -> None:
        with self.change():
            self.registry.register(subject, request(text, id=id, version=number))

    @rule(subject=SUBJECTS, version=VERSIONS, is_permanent=st.booleans())
    def delete_version(self, subject: Any, version: str, is_permanent: bool) -> None:
        with self.change():
            self.registry.delete_version(subject, version, is_permanent=is_permanent)

    @rule(subject=SUBJECTS, is_permanent=st.booleans())
    def delete_subject(self, subject: Any, is_permanent: bool) -> None:
        with self.change():
            self.registry.delete_subject(subject, is_permanent=is_permanent)

    @rule(scope=SCOPES, level=st.sampled_from(["NONE", "NONE", "FULL", None]))
    def configure(self, scope: Any, level: str | None) -> None:
        with self.change():
            if level is None:
                self.registry.delete_config(scope)
            else:
                self.registry.update_config(scope, {"compatibilityLevel": level})

    @rule(scope=SCOPES, mode=st.sampled_from(["READWRITE", "READWRITE", "IMPORT", "READONLY", None]))
    def set_mode(self, scope: Any, mode: str | None) -> None:
        with self.change():
            if mode is None:
                self.registry.delete_mode(scope)
            else:
                self.registry.update_mode(scope, mode, is_forced=True)

    @invariant()
    def registry_that_reads_the_log_answers_the_same(self) -> None:
        other = InMemorySchemaLog()
        other.records = list(self.registry.log.records)
        assert shown(LoggedRegistry(other)) == shown(self.registry)

    @invariant()
    def log_without_overwritten_records_says_the_same(self) -> None:
        """As compaction leaves it, with tombstones. The highest id may be that of one."""
        newest = {record.key: offset for offset, record in enumerate(self.registry.log.records)}
        compacted = Registry(InMemorySchemaLog())
        for offset, record in enumerate(self.registry.log.records):
            if newest[record.key] == offset:
                compacted.apply(offset, *record)
        for deleted in Deleted:
            assert list(compacted.catalog.all_versions(deleted=deleted)) == list(
                self.registry.catalog.all_versions(deleted=deleted)
            )

    @invariant()
    def content_has_one_id_unless_imports_gave_it_more(self) -> None:
        for version in self.registry.catalog.all_versions(deleted=Deleted.INCLUDED):
            holders = self.registry.catalog.schema_versions(version.id, name(f":{version.subject.context}:"))
            assert {one.content.identity for one in holders} == {version.content.identity}


Operations.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=25, deadline=None)
TestOperations = Operations.TestCase
