"""A version of a subject, as it is stored."""

from __future__ import annotations

from typing import NamedTuple

from kqueue.schema_registry.schema_content import SchemaContent
from kqueue.schema_registry.subject_names import SubjectName


class SchemaVersion(NamedTuple):
    """A version of a subject.

    Attributes:
        id: of its content, within the context of the subject.
        is_deleted: soft-deleted: hidden, and still found by its id.
        timestamp_ms: of its record, since 1970 UTC; -1: not known.
    """

    subject: SubjectName
    version: int
    id: int
    content: SchemaContent
    is_deleted: bool = False
    timestamp_ms: int = -1
