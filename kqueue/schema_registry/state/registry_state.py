"""All that the records of `_schemas` say."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

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
from kqueue.schema_registry.state.reference_index import ReferenceIndex
from kqueue.schema_registry.state.schema_index import SchemaIndex
from kqueue.schema_registry.state.schema_version import SchemaVersion
from kqueue.schema_registry.subject_names import (
    DEFAULT_CONTEXT,
    GLOBAL_CONTEXT,
    SubjectName,
    parse_subject,
)

Scope = SubjectName | None
"""What a config or mode holds for: a subject, a context (a name without subject), or None: the
default context, and others without their own.
"""
GLOBAL_SCOPE = SubjectName(GLOBAL_CONTEXT, "")


class RegistryState:
    """Subjects with their versions, configs and modes.

    Attributes:
        schemas: the versions by id, content and GUID.
        references: who refers to which version.
    """

    def __init__(self) -> None:
        self.schemas = SchemaIndex()
        self.references = ReferenceIndex()
        self._subjects: dict[SubjectName, dict[int, SchemaVersion]] = {}  # versions ascending
        self._configs: dict[Scope, Mapping[str, Any]] = {}
        self._modes: dict[Scope, str] = {}
        self._contexts: set[str] = set()

    # --- records

    def apply(self, record: RegistryRecord, timestamp_ms: int = -1) -> None:
        """Take in a record. `timestamp_ms`: of the record, since 1970 UTC; -1: not known."""
        key, value = record
        match key:
            case SchemaKey(subject, number):
                name = parse_subject(subject)
                if isinstance(value, SchemaValue):
                    self._put(
                        SchemaVersion(
                            name, number, value.id, value.content, value.is_deleted, timestamp_ms, value.stored_md5
                        )
                    )
                else:
                    self._remove(name, number)
            case DeleteSubjectKey(subject):
                self._soft_delete(parse_subject(subject), value if isinstance(value, int) else 0)
            case ClearSubjectKey(subject):
                if value is not None:
                    self._forget_deleted(parse_subject(subject))
            case ConfigKey(subject):
                self._configs.pop(_scope(subject), None)
                if isinstance(value, Mapping):
                    self._configs[_scope(subject)] = value
            case ModeKey(subject):
                self._modes.pop(_scope(subject), None)
                if isinstance(value, Mapping) and isinstance(value.get("mode"), str):
                    self._modes[_scope(subject)] = value["mode"]
            case ContextKey(context):
                self._contexts.discard(context)
                if value is not None:
                    self._contexts.add(context)
            case NoopKey():
                pass

    def _put(self, version: SchemaVersion) -> None:
        versions = self._subjects.setdefault(version.subject, {})
        old = versions.get(version.version)
        if old is not None:
            self.schemas.remove(old)
            self.references.remove(old)
        is_in_order = old is not None or not versions or next(reversed(versions)) < version.version
        versions[version.version] = version
        if not is_in_order:  # an import
            self._subjects[version.subject] = dict(sorted(versions.items()))
        self.schemas.add(version)
        self.references.add(version)

    def _remove(self, subject: SubjectName, number: int) -> None:
        versions = self._subjects.get(subject, {})
        version = versions.pop(number, None)
        if version is None:
            return
        if not versions:
            del self._subjects[subject]
        self.schemas.remove(version)
        self.references.remove(version)

    def _soft_delete(self, subject: SubjectName, number_max: int) -> None:
        for version in self.versions(subject, is_deleted_included=False):
            if version.version <= number_max:
                self._put(version._replace(is_deleted=True))

    def _forget_deleted(self, subject: SubjectName) -> None:
        for version in self.versions(subject, is_deleted_included=True):
            if version.is_deleted:
                self._remove(subject, version.version)

    # --- subjects

    def subjects(self, wanted: Callable[[SubjectName], bool] | None = None) -> list[SubjectName]:
        """Return the subjects that have a version, soft-deleted or not, sorted by context and name.

        Args: wanted: None: all.
        """
        return sorted(self._subjects if wanted is None else filter(wanted, self._subjects))

    def has_subject(self, subject: SubjectName, *, is_deleted_included: bool = False) -> bool:
        """Whether a subject has a version."""
        return self.latest(subject, is_deleted_included=is_deleted_included) is not None

    def versions(self, subject: SubjectName, *, is_deleted_included: bool = False) -> list[SchemaVersion]:
        """Return the versions of a subject, oldest first; empty: there is no such subject."""
        versions = self._subjects.get(subject, {}).values()
        return [version for version in versions if is_deleted_included or not version.is_deleted]

    def version(self, subject: SubjectName, number: int) -> SchemaVersion | None:
        """Return a version, soft-deleted or not; None: there is none."""
        return self._subjects.get(subject, {}).get(number)

    def latest(self, subject: SubjectName, *, is_deleted_included: bool = False) -> SchemaVersion | None:
        """Return the newest version of a subject; None: there is none."""
        for version in reversed(self._subjects.get(subject, {}).values()):
            if is_deleted_included or not version.is_deleted:
                return version
        return None

    def has_context(self, context: str) -> bool:
        """Whether a record says that a context exists; the default one needs none."""
        return context == DEFAULT_CONTEXT or context in self._contexts

    def contexts(self) -> list[str]:
        """Return the contexts that are known, sorted; the default one always is."""
        return sorted({DEFAULT_CONTEXT, *self._contexts, *self.schemas.contexts()})

    # --- configs and modes

    def config(self, scope: Scope) -> Mapping[str, Any] | None:
        """Return what was configured for exactly this scope; None: nothing."""
        return self._configs.get(scope)

    def mode(self, scope: Scope) -> str | None:
        """Return the mode that was set for exactly this scope; None: none."""
        return self._modes.get(scope)


def scopes_of(scope: Scope) -> Iterator[Scope]:
    """Yield the scopes whose configs and modes hold for one, the nearest first: the subject, its
    context, and those of all contexts. What is not set for a context is that of the default one.
    """
    if scope is not None and not scope.is_context:
        yield scope
    if scope is not None and scope.context not in (DEFAULT_CONTEXT, GLOBAL_CONTEXT):
        yield SubjectName(scope.context, "")
        yield GLOBAL_SCOPE
        yield None
    else:
        yield None
        yield GLOBAL_SCOPE


def _scope(subject: str | None) -> Scope:
    return None if subject is None else scope_of(parse_subject(subject))


def scope_of(name: SubjectName) -> Scope:
    """Return the scope that a name says: that of the default context is the one of all."""
    return None if name == SubjectName(DEFAULT_CONTEXT, "") else name
