"""The members of JSON by which answers describe schemas and versions."""

from __future__ import annotations

from typing import Any

from kqueue.schema_registry.rest.call import Call
from kqueue.schema_registry.state.schema_version import SchemaVersion


def version_fields(call: Call, version: SchemaVersion) -> dict[str, Any]:
    """Return a version as lists and look-ups show it."""
    fields = {"subject": str(version.subject), "version": version.version, "id": version.id}
    return {**fields, **schema_fields(call, version)}


def schema_fields(call: Call, version: SchemaVersion) -> dict[str, Any]:
    """Return the schema of a version, in the format of the query."""
    content = version.content
    fields = content.fields() | {"schema": call.registry.text_of(version, call.format())}
    if not call.takes_unknown_members:
        return fields
    more: dict[str, Any] = {"guid": version.guid, "schemaType": content.type_name, **fields}
    if version.timestamp_ms >= 0:
        more["ts"] = version.timestamp_ms
    return more | {"deleted": version.is_deleted}
