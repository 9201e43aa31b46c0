"""Schemas by id, by content and by MD5."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kqueue.schema_registry.schema_content import SchemaContent
from kqueue.schema_registry.state.schema_version import SchemaVersion

_NOTHING: Mapping[str, dict[int, SchemaVersion]] = {}


class SchemaIndex:
    """The schemas of all contexts. An id is known as long as a version has it, soft-deleted or not.

    Ids of a context only grow: `max_id` counts those that were deleted too.
    """

    def __init__(self) -> None:
        self._contexts: dict[str, _ContextIndex] = {}
        self._ids_by_md5: dict[bytes, dict[tuple[str, int], int]] = {}  # -> number of versions

    def add(self, version: SchemaVersion) -> None:
        """Add a version, which is not there yet."""
        context = version.subject.context
        self._contexts.setdefault(context, _ContextIndex()).add(version)
        uses = self._ids_by_md5.setdefault(version.md5, {})
        uses[context, version.id] = uses.get((context, version.id), 0) + 1

    def remove(self, version: SchemaVersion) -> None:
        """Remove a version, which is there."""
        context = version.subject.context
        self._contexts[context].remove(version)
        uses = self._ids_by_md5[version.md5]
        uses[context, version.id] -= 1
        if not uses[context, version.id]:
            del uses[context, version.id]
        if not uses:
            del self._ids_by_md5[version.md5]

    def max_id(self, context: str) -> int:
        """Return the highest id that a context ever had; 0: none."""
        index = self._contexts.get(context)
        return 0 if index is None else index.max_id

    def versions(self, context: str, schema_id: int) -> list[SchemaVersion]:
        """Return all versions that have an id, soft-deleted ones too, in no order."""
        index = self._contexts.get(context)
        by_subject = _NOTHING if index is None else index.by_id.get(schema_id, _NOTHING)
        return [version for versions in by_subject.values() for version in versions.values()]

    def has_subject(self, context: str, schema_id: int, subject: str) -> bool:
        """Whether a subject has a version with an id, soft-deleted or not."""
        index = self._contexts.get(context)
        return index is not None and subject in index.by_id.get(schema_id, _NOTHING)

    def any_version(self, context: str, schema_id: int) -> SchemaVersion | None:
        """Return one version that has an id; None: there is none. Versions of an id have one
        content, unless a forced import gave the id twice.
        """
        index = self._contexts.get(context)
        by_subject = _NOTHING if index is None else index.by_id.get(schema_id, _NOTHING)
        for versions in by_subject.values():
            for version in versions.values():
                return version
        return None

    def id_of(self, context: str, content: SchemaContent) -> int | None:
        """Return the lowest id of a content; None: no version has it."""
        index = self._contexts.get(context)
        ids = None if index is None else index.ids_by_content.get(content.identity)
        return min(ids) if ids else None

    def versions_of_content(self, context: str, subject: str, content: SchemaContent) -> list[SchemaVersion]:
        """Return the versions of a subject with a content, oldest first, soft-deleted ones too."""
        index = self._contexts.get(context)
        if index is None:
            return []
        found = (
            version
            for schema_id in index.ids_by_content.get(content.identity, ())
            for version in index.by_id[schema_id].get(subject, {}).values()
            if version.content.identity == content.identity
        )
        return sorted(found, key=lambda version: version.version)

    def ids_of_md5(self, md5: bytes) -> list[tuple[str, int]]:
        """Return the contexts and ids of schemas with an MD5, sorted."""
        return sorted(self._ids_by_md5.get(md5, ()))

    def contexts(self) -> Iterable[str]:
        """Return the contexts that ever had a schema."""
        return self._contexts


class _ContextIndex:
    """The schemas of one context."""

    def __init__(self) -> None:
        self.max_id = 0
        self.by_id: dict[int, dict[str, dict[int, SchemaVersion]]] = {}
        self.ids_by_content: dict[tuple[str, bytes], dict[int, int]] = {}  # -> number of versions

    def add(self, version: SchemaVersion) -> None:
        self.max_id = max(self.max_id, version.id)
        self.by_id.setdefault(version.id, {}).setdefault(version.subject.subject, {})[version.version] = version
        uses = self.ids_by_content.setdefault(version.content.identity, {})
        uses[version.id] = uses.get(version.id, 0) + 1

    def remove(self, version: SchemaVersion) -> None:
        by_subject = self.by_id[version.id]
        del by_subject[version.subject.subject][version.version]
        if not by_subject[version.subject.subject]:
            del by_subject[version.subject.subject]
        if not by_subject:
            del self.by_id[version.id]
        uses = self.ids_by_content[version.content.identity]
        uses[version.id] -= 1
        if not uses[version.id]:
            del uses[version.id]
        if not uses:
            del self.ids_by_content[version.content.identity]
