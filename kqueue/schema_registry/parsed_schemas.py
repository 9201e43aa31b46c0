"""Parses schemas together with those that they refer to, and keeps what was parsed."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import NamedTuple

from kqueue.base.errors import ExtraNeeded
from kqueue.schema_registry.errors import CIRCULAR_REFERENCE, INVALID_SCHEMA, SCHEMA_TOO_LARGE, RegistryError
from kqueue.schema_registry.limits import Limits
from kqueue.schema_registry.schema_content import LATEST_VERSION, SchemaContent, SchemaReference
from kqueue.schema_registry.schemas.contract import InvalidSchema, ParsedSchema, ResolvedReference, SchemaType
from kqueue.schema_registry.state.registry_state import RegistryState
from kqueue.schema_registry.state.schema_version import SchemaVersion
from kqueue.schema_registry.subject_names import SubjectName, parse_subject


class ResolvedContent(NamedTuple):
    """A content whose references were found.

    Attributes:
        content: with versions instead of -1.
        references: with their texts.
        identity: equal if content, texts and all are; hashable.
    """

    content: SchemaContent
    references: tuple[ResolvedReference, ...]
    identity: Hashable


class ParsedSchemas:
    """Parses, and keeps the last ones. Thread: any.

    Args: type_of: returns the schema type of a name.
    """

    def __init__(self, type_of: Callable[[str], SchemaType], limits: Limits) -> None:
        self._type_of = type_of
        self._limits = limits
        self._kept: OrderedDict[Hashable, ParsedSchema] = OrderedDict()
        self._lock = threading.Lock()

    def resolve(
        self, state: RegistryState, content: SchemaContent, context: str, *, is_new: bool = True
    ) -> ResolvedContent:
        """Return a content with what it refers to.

        Args:
            context: of the references whose names have none.
            is_new: False: it is stored already; it may refer to soft-deleted versions.
        Raises: RegistryError: a reference is not there; too many, too deep, or in a circle.
        """
        resolution = _Resolution(state, self._limits, is_new)
        numbered = resolution.numbered(content.references, context)
        references = resolution.resolved(numbered, context, ())
        content = content if numbered == content.references else content.with_references(numbered)
        texts = frozenset((*key, version.content.identity) for key, version in resolution.versions.items())
        return ResolvedContent(content, references, (content.type_name, content.text, numbered, texts, context))

    def parse(self, resolved: ResolvedContent, *, is_new: bool = True) -> ParsedSchema:
        """Return a schema. `is_new`: False: it is stored already, so that rules for new ones do not
        hold. Raises: RegistryError: it is no schema of its type.
        """
        key = resolved.identity, is_new
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        content = resolved.content
        try:
            parsed = self._type_of(content.type_name).parse(content.text, resolved.references, is_new=is_new)
        except (InvalidSchema, ExtraNeeded) as error:
            raise RegistryError(INVALID_SCHEMA, reason=str(error)) from None
        if len(content.text) <= self._limits.parsed_schema_characters_max:
            with self._lock:
                self._kept[key] = parsed
                while len(self._kept) > self._limits.parsed_schemas_max:
                    self._kept.popitem(last=False)
        return parsed


class _Resolution:
    """Finds what one schema refers to. Each version is resolved once, however many refer to it."""

    def __init__(self, state: RegistryState, limits: Limits, is_new: bool) -> None:
        self.versions: dict[tuple[SubjectName, int], SchemaVersion] = {}
        self._state = state
        self._limits = limits
        self._is_new = is_new
        self._resolved: dict[tuple[SubjectName, int], tuple[ResolvedReference, ...]] = {}

    def numbered(self, references: tuple[SchemaReference, ...], context: str) -> tuple[SchemaReference, ...]:
        """Return references with the newest version instead of -1."""
        return tuple(
            reference._replace(version=self._newest(reference, context))
            if reference.version == LATEST_VERSION
            else reference
            for reference in references
        )

    def resolved(
        self, references: tuple[SchemaReference, ...], context: str, path: tuple[tuple[SubjectName, int], ...]
    ) -> tuple[ResolvedReference, ...]:
        """Return references with their texts. `path`: the versions that led here."""
        return tuple(self._one(reference, context, path) for reference in references)

    def _one(
        self, reference: SchemaReference, context: str, path: tuple[tuple[SubjectName, int], ...]
    ) -> ResolvedReference:
        key = parse_subject(reference.subject, context), reference.version
        if key in path:
            raise RegistryError(CIRCULAR_REFERENCE, subject=str(key[0]), version=key[1])
        if len(path) >= self._limits.reference_depth_max:
            raise RegistryError(
                SCHEMA_TOO_LARGE, reason=f"references are more than {self._limits.reference_depth_max} deep"
            )
        version = self._version(reference, key)
        if key not in self._resolved:
            inner = self.numbered(version.content.references, key[0].context)
            self._resolved[key] = self.resolved(inner, key[0].context, (*path, key))
        return ResolvedReference(reference.name, str(key[0]), key[1], version.content.text, self._resolved[key])

    def _version(self, reference: SchemaReference, key: tuple[SubjectName, int]) -> SchemaVersion:
        version = self._state.version(*key)
        if version is None or (version.is_deleted and self._is_new):
            raise RegistryError(
                INVALID_SCHEMA,
                reason=f"reference {reference.name!r} names subject {str(key[0])!r} version {key[1]}, "
                "which is not registered",
            )
        self.versions[key] = version
        if len(self.versions) > self._limits.resolved_references_max:
            raise RegistryError(
                SCHEMA_TOO_LARGE,
                reason=f"it has more than {self._limits.resolved_references_max:,} references with those of references",
            )
        return version

    def _newest(self, reference: SchemaReference, context: str) -> int:
        subject = parse_subject(reference.subject, context)
        latest = self._state.latest(subject, is_deleted_included=not self._is_new)
        if latest is None:
            raise RegistryError(
                INVALID_SCHEMA,
                reason=f"reference {reference.name!r} names subject {str(subject)!r}, which is not registered",
            )
        return latest.version
