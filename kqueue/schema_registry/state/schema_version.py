"""A version of a subject, as it is stored."""

from __future__ import annotations

from typing import NamedTuple

from kqueue.schema_registry.records import SchemaValue
from kqueue.schema_registry.schema_content import SchemaContent
from kqueue.schema_registry.subject_names import SubjectName


class SchemaVersion(NamedTuple):
    """A version of a subject.

    Attributes:
        id: of its content, within the context of the subject.
        is_deleted: soft-deleted: hidden, and still found by its id.
        timestamp_ms: of its record, since 1970 UTC; -1: not known.
        stored_guid: by which another registry stored it; None: the one of its content.
    """

    subject: SubjectName
    version: int
    id: int
    content: SchemaContent
    is_deleted: bool = False
    timestamp_ms: int = -1
    stored_guid: str | None = None

    @property
    def guid(self) -> str:
        """Its id in all contexts and registries, the text of a UUID."""
        return self.stored_guid or self.content.guid

    def value(self, *, is_deleted: bool = False) -> SchemaValue:
        """Return what is stored of it."""
        return SchemaValue(self.id, self.content, is_deleted, self.stored_guid)
