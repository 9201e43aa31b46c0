"""A registry over a log in memory, and the schemas that tests register."""

from __future__ import annotations

import json
from typing import Any

from kqueue.schema_registry.registry import Registry, SchemaRequest
from kqueue.schema_registry.schema_content import SchemaContent, SchemaReference
from kqueue.schema_registry.schema_log import InMemorySchemaLog
from kqueue.schema_registry.state.schema_version import SchemaVersion
from kqueue.schema_registry.subject_names import SubjectName, parse_subject

STRING, INT, LONG = '"string"', '"int"', '"long"'
NOW_MS = 1_700_000_000_000


def name(text: str) -> SubjectName:
    return parse_subject(text)


def content(text: str = STRING, **more: Any) -> SchemaContent:
    return SchemaContent("AVRO", text, **more)


def request(text: str = STRING, *, id: int | None = None, version: int | None = None, **more: Any) -> SchemaRequest:
    return SchemaRequest(content(text, **more), id, version)


def record(of: str, *fields: Any) -> str:
    """The text of an Avro record, whose fields are names with types and defaults."""
    listed = [
        {"name": field[0], "type": field[1], **({"default": field[2]} if len(field) > 2 else {})} for field in fields
    ]
    return json.dumps({"type": "record", "name": of, "fields": listed}, separators=(",", ":"))


def reference(subject: str, version: int = 1, name: str | None = None) -> SchemaReference:
    return SchemaReference(name or subject, subject, version)


class LoggedRegistry(Registry):
    """A registry with its log, which it follows from the beginning."""

    def __init__(self, log: InMemorySchemaLog | None = None, **options: Any) -> None:
        self.log = InMemorySchemaLog(lambda: NOW_MS) if log is None else log
        super().__init__(self.log, **options)
        self.log.follow(self.apply)

    def add(self, subject: str, text: str = STRING, **more: Any) -> SchemaVersion:
        """Register a schema."""
        return self.register(name(subject), request(text, **more))

    def logged_keys(self) -> list[Any]:
        """The keys of the log, as JSON."""
        return [json.loads(record.key) for record in self.log.records]

    def logged_values(self) -> list[Any]:
        """The values of the log, as JSON."""
        return [None if record.value is None else json.loads(record.value) for record in self.log.records]
