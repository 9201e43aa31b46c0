"""`/compatibility`: whether a schema could be registered."""

from __future__ import annotations

from typing import Any

from kqueue.schema_registry.rest.call import Call, Endpoint
from kqueue.schema_registry.rest.contract import Operation


def check_all(call: Call) -> object:
    """Compare a schema with those that the level of its subject says."""
    return _checked(call, None)


def check_version(call: Call) -> object:
    """Compare a schema with one version."""
    return _checked(call, call.path_text("version"))


def _checked(call: Call, version: str | None) -> dict[str, Any]:
    subject = call.subject(Operation.READ)
    differences = call.registry.check_compatibility(
        subject, call.content(subject), version, is_normalized=call.flag("normalize")
    )
    answer: dict[str, Any] = {"is_compatible": not differences}
    return answer | {"messages": differences} if call.flag("verbose") else answer


ENDPOINTS = (
    Endpoint(
        "POST",
        "/compatibility/subjects/{subject}/versions",
        "whether a schema is compatible, at the level of its subject",
        check_all,
        ("normalize", "verbose"),
    ),
    Endpoint(
        "POST",
        "/compatibility/subjects/{subject}/versions/{version}",
        "whether a schema is compatible with a version",
        check_version,
        ("normalize", "verbose"),
    ),
)
