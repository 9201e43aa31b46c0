"""Schemas of a registry by HTTP, with bounds on size and time.

Source: the REST API of Confluent's Schema Registry, which Karapace and Apicurio have too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

from kqueue.schema_registry.rest_client import (
    RETRY_S,
    TIMEOUT_S,
    RegistryRefused,
    RegistryRestClient,
    RegistrySettings,
    RegistryUnreachable,
    subject_path,
)
from kqueue.spark.errors import RegistryFailed, SchemaRefused
from kqueue.spark.value_formats.contract import (
    SCHEMA_BYTES_MAX,
    FormatName,
    SchemaText,
    shortened,
)

TYPES: Mapping[FormatName, str] = {"avro": "AVRO", "protobuf": "PROTOBUF", "json-schema": "JSON"}
"""The names that registries have for the formats. A schema without a name is Avro."""
SUBJECT_UNKNOWN, VERSION_UNKNOWN, SCHEMA_UNKNOWN = 40401, 40402, 40403
ANSWER_BYTES_MAX = 2 * SCHEMA_BYTES_MAX
REFERENCES_MAX = 100
T = TypeVar("T", dict[str, Any], list[Any])


class RegisteredSchema(NamedTuple):
    """A version of a subject. `kind`: as registries write it, AVRO, PROTOBUF or JSON; `references`:
    the names under which it refers to others.
    """

    id: int
    version: int
    kind: str
    text: str
    references: tuple[str, ...]


class Registry:
    """A client of one registry, for schemas of one format. Thread: one at a time.

    Every request ends in bounded time: three tries of `timeout_s`, each twice that at most.
    """

    def __init__(self, settings: RegistrySettings, format: FormatName, timeout_s: float = TIMEOUT_S) -> None:
        self._settings = settings
        self._format = format
        self._client = RegistryRestClient(settings, ANSWER_BYTES_MAX, timeout_s, RETRY_S)

    def newest(self, subject: str) -> SchemaText:
        """Return the newest schema of a subject.

        Raises: SchemaRefused: there is none, or it is of another format. RegistryFailed.
        """
        answer = self._get(f"{subject_path(subject)}/versions/latest")
        if answer is None:
            raise SchemaRefused(
                f"the registry {self._settings.url} has no subject {subject!r}: name valueSchemaSubject"
            )
        return self._text(answer, f"the subject {subject!r}")

    def by_id(self, schema_id: int) -> SchemaText:
        """Return the schema of an id. Raises: as `newest`."""
        answer = self._get(f"/schemas/ids/{schema_id}")
        if answer is None:
            raise SchemaRefused(f"the registry has no schema {schema_id}")
        return self._text(answer, f"schema {schema_id}")

    def format_of(self, schema_id: int) -> FormatName:
        """Return the format of a schema, whatever this client's is. Raises: as `newest`."""
        answer = self._get(f"/schemas/ids/{schema_id}")
        if answer is None:
            raise SchemaRefused(f"the registry has no schema {schema_id}")
        kind = answer.get("schemaType", "AVRO")
        for format, name in TYPES.items():
            if name == kind:
                return format
        raise SchemaRefused(f"schema {schema_id} of the registry is {shortened(kind)}, which is no known format")

    def subjects(self) -> list[str]:
        """Return the names of all subjects, sorted. Raises: RegistryFailed."""
        return sorted(str(name) for name in self._ask("/subjects", list) or ())

    def versions(self, subject: str) -> list[int]:
        """Return the versions of a subject, the oldest first; empty: there is no such subject.

        Raises: RegistryFailed.
        """
        listed = self._ask(f"{subject_path(subject)}/versions", list) or ()
        return sorted(version for version in listed if type(version) is int)

    def version(self, subject: str, version: int) -> RegisteredSchema | None:
        """Return a version of a subject, of any format; None: there is none.

        Raises: SchemaRefused: the registry gives no text. RegistryFailed.
        """
        answer = self._get(f"{subject_path(subject)}/versions/{version}")
        if answer is None:
            return None
        id, listed = answer.get("id"), answer.get("references")
        references = listed[:REFERENCES_MAX] if isinstance(listed, list) else []
        return RegisteredSchema(
            id if type(id) is int else -1,
            version,
            shortened(answer.get("schemaType", "AVRO")),
            _schema(answer, f"version {version} of the subject {subject!r}"),
            tuple(str(one.get("name")) for one in references if isinstance(one, dict)),
        )

    def _text(self, answer: dict[str, Any], what: str) -> SchemaText:
        kind = answer.get("schemaType", "AVRO")
        if kind != TYPES[self._format]:
            raise SchemaRefused(f"{what} of the registry is {shortened(kind)}, expected {TYPES[self._format]}")
        references: dict[str, str] = {}
        self._add_references(answer, references, [])
        return SchemaText(_schema(answer, what), tuple(references.items()))

    def _add_references(self, schema: dict[str, Any], known: dict[str, str], within: list[str]) -> None:
        """Add what a schema refers to, each after what it needs itself."""
        listed = schema.get("references") or []
        if not isinstance(listed, list):
            raise SchemaRefused("the registry gives references that are no list")
        for one in listed:
            try:
                name, subject, version = str(one["name"]), str(one["subject"]), int(one["version"])
            except (KeyError, TypeError, ValueError):
                raise SchemaRefused("the registry gives a reference without name, subject or version") from None
            if name in known:
                continue
            if name in within or len(within) + len(known) >= REFERENCES_MAX:
                raise SchemaRefused(f"schemas of the registry refer to each other in a circle, or to {REFERENCES_MAX}")
            answer = self._get(f"{subject_path(subject)}/versions/{version}")
            if answer is None:
                raise SchemaRefused(f"the registry has no version {version} of {subject!r}, which a schema refers to")
            self._add_references(answer, known, [*within, name])
            known[name] = _schema(answer, f"the subject {subject!r}")

    def _get(self, path: str) -> dict[str, Any] | None:
        return self._ask(path, dict)

    def _ask(self, path: str, kind: type[T]) -> T | None:
        """Return an answer of this kind; None: the registry says that there is no such thing."""
        query = {"format": "serialized"} if self._format == "protobuf" else None
        try:
            answer = self._client.get(path, query)
        except RegistryRefused as error:
            if error.status == 404 and error.code in (SUBJECT_UNKNOWN, VERSION_UNKNOWN, SCHEMA_UNKNOWN):
                return None
            reason = f"status {error.status} {error}"
        except RegistryUnreachable as error:
            reason = str(error)
        else:
            if isinstance(answer, kind):
                return answer
            reason = f"expected a JSON {'object' if kind is dict else 'array'}"
        raise RegistryFailed(f"the schema registry {self._settings.url} gives no schema: {reason}")


def _schema(answer: dict[str, Any], what: str) -> str:
    text = answer.get("schema")
    if not isinstance(text, str) or len(text) > SCHEMA_BYTES_MAX:
        raise SchemaRefused(f"{what} of the registry is no text of at most {SCHEMA_BYTES_MAX:,} characters")
    return text
