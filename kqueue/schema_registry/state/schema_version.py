"""A version of a subject, as it is stored."""

from __future__ import annotations

import uuid
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
        stored_md5: 16 bytes, with which another registry stored it; None: the content's.
    """

    subject: SubjectName
    version: int
    id: int
    content: SchemaContent
    is_deleted: bool = False
    timestamp_ms: int = -1
    stored_md5: bytes | None = None

    @property
    def md5(self) -> bytes:
        """16 bytes, which are those of the GUID."""
        return self.stored_md5 or self.content.md5

    @property
    def guid(self) -> str:
        """The id of its schema in all contexts and registries: the MD5 as the text of a UUID."""
        return str(uuid.UUID(bytes=self.md5))

    def value(self, *, is_deleted: bool = False) -> SchemaValue:
        """Return what is stored of it."""
        return SchemaValue(self.id, self.content, is_deleted, self.stored_md5)
