"""Schemas of a registry by HTTP, with bounds on size and time.

Source: the REST API of Confluent's Schema Registry, which Karapace and Apicurio have too.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Mapping
from http.client import HTTPException
from typing import Any, NamedTuple, TypeVar
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request

from kqueue.base.clock import monotonic_s
from kqueue.base.errors import SettingError
from kqueue.config.http_client import HttpOptions, read_bounded, read_url
from kqueue.spark.errors import RegistryFailed, SchemaRefused
from kqueue.spark.value_formats.contract import (
    SCHEMA_BYTES_MAX,
    FormatName,
    RegistrySettings,
    SchemaText,
    shortened,
)

TYPES: Mapping[FormatName, str] = {"avro": "AVRO", "protobuf": "PROTOBUF", "json-schema": "JSON"}
"""The names that registries have for the formats. A schema without a name is Avro."""
SUBJECT_UNKNOWN, VERSION_UNKNOWN, SCHEMA_UNKNOWN = 40401, 40402, 40403
TIMEOUT_S = 5.0
RETRY_S = (0.2, 1.0)
"""Seconds before each retry: the registry did not answer, answered 5xx, or is busy."""
BUSY = (408, 429)
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
        self._options = HttpOptions(ANSWER_BYTES_MAX, timeout_s, settings.tls)
        self._headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if settings.token is not None:
            self._headers["Authorization"] = f"Bearer {settings.token}"
        elif settings.user is not None:
            pair = f"{settings.user}:{settings.password or ''}".encode()
            self._headers["Authorization"] = "Basic " + base64.b64encode(pair).decode()

    def newest(self, subject: str) -> SchemaText:
        """Return the newest schema of a subject.

        Raises: SchemaRefused: there is none, or it is of another format. RegistryFailed.
        """
        answer = self._get(f"/subjects/{quote(subject, safe='')}/versions/latest")
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
        listed = self._ask(f"/subjects/{quote(subject, safe='')}/versions", list) or ()
        return sorted(version for version in listed if type(version) is int)

    def version(self, subject: str, version: int) -> RegisteredSchema | None:
        """Return a version of a subject, of any format; None: there is none.

        Raises: SchemaRefused: the registry gives no text. RegistryFailed.
        """
        answer = self._get(f"/subjects/{quote(subject, safe='')}/versions/{version}")
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
            answer = self._get(f"/subjects/{quote(subject, safe='')}/versions/{version}")
            if answer is None:
                raise SchemaRefused(f"the registry has no version {version} of {subject!r}, which a schema refers to")
            self._add_references(answer, known, [*within, name])
            known[name] = _schema(answer, f"the subject {subject!r}")

    def _get(self, path: str) -> dict[str, Any] | None:
        return self._ask(path, dict)

    def _ask(self, path: str, kind: type[T]) -> T | None:
        """Return an answer of this kind; None: the registry says that there is no such thing."""
        url = self._settings.url.rstrip("/") + path + ("?format=serialized" if self._format == "protobuf" else "")
        waits = iter(RETRY_S)
        while True:
            try:
                answer = json.loads(read_url(Request(url, headers=self._headers), self._options))
                if isinstance(answer, kind):
                    return answer
                raise ValueError(f"expected a JSON {'object' if kind is dict else 'array'}")
            except HTTPError as error:
                with error:
                    if error.code == 404 and _error_code(error) in (SUBJECT_UNKNOWN, VERSION_UNKNOWN, SCHEMA_UNKNOWN):
                        return None
                reason = f"status {error.code} {error.reason}"
                is_over = error.code < 500 and error.code not in BUSY
            except (SettingError, ValueError, RecursionError) as error:
                reason, is_over = shortened(error), True
            except OSError as error:
                reason = shortened(getattr(error, "reason", None) or error) or type(error).__name__
                is_over = False
            wait_s = next(waits, None)
            if is_over or wait_s is None:
                raise RegistryFailed(f"the schema registry {self._settings.url} gives no schema: {reason}")
            time.sleep(wait_s)


def _schema(answer: dict[str, Any], what: str) -> str:
    text = answer.get("schema")
    if not isinstance(text, str) or len(text) > SCHEMA_BYTES_MAX:
        raise SchemaRefused(f"{what} of the registry is no text of at most {SCHEMA_BYTES_MAX:,} characters")
    return text


def _error_code(error: HTTPError) -> object:
    try:
        return json.loads(read_bounded(error, ANSWER_BYTES_MAX, monotonic_s() + TIMEOUT_S)).get("error_code")
    except (OSError, ValueError, AttributeError, RecursionError, HTTPException):
        return None
