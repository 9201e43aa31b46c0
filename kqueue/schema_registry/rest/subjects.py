"""`/subjects`: subjects and their versions."""

from __future__ import annotations

from typing import Any

from kqueue.schema_registry.errors import SCHEMA_NOT_FOUND, RegistryError
from kqueue.schema_registry.rest.call import Call, Endpoint, PlainText
from kqueue.schema_registry.rest.contract import Operation
from kqueue.schema_registry.rest.schema_fields import version_fields
from kqueue.schema_registry.state.schema_version import SchemaVersion


def list_subjects(call: Call) -> object:
    """Return the names of subjects."""
    names = call.catalog.subjects(call.query.get("subjectPrefix", ""), call.deleted())
    return call.page(str(name) for name in names if call.is_allowed(Operation.READ, name))


def look_up(call: Call) -> object:
    """Return the version of a subject that has the schema of the body."""
    subject = call.subject(Operation.READ)
    version = call.registry.look_up(
        subject, call.content(subject), is_normalized=call.flag("normalize"), deleted=call.deleted()
    )
    return version_fields(call, version)


def delete_subject(call: Call) -> object:
    """Return the numbers of the versions that are deleted."""
    return call.registry.delete_subject(call.subject(Operation.DELETE), is_permanent=call.flag("permanent"))


def list_versions(call: Call) -> object:
    """Return the numbers of versions."""
    versions = call.catalog.versions(call.subject(Operation.READ), call.deleted())
    return call.page(version.version for version in versions)


def register(call: Call) -> object:
    """Return the id of a schema that has become the newest version, or was one."""
    subject = call.subject(Operation.WRITE)
    version = call.registry.register(subject, call.schema_request(subject), is_normalized=call.flag("normalize"))
    return _registered(call, version)


def find_registered(call: Call) -> object | None:
    """Return the answer for a schema that is registered already; None: it is not."""
    subject, is_normalized = call.subject(Operation.WRITE), call.flag("normalize")
    version = call.registry.find_registered(subject, call.schema_request(subject), is_normalized=is_normalized)
    return None if version is None else _registered(call, version)


def _registered(call: Call, version: SchemaVersion) -> dict[str, Any]:
    if not call.takes_unknown_members:
        return {"id": version.id}
    # Not the schema: Confluent's Python client would keep its text instead of the one that it sent,
    # a serialized descriptor, and then fail to read it.
    return {"version": version.version, "id": version.id, "guid": version.guid}


def get_version(call: Call) -> object:
    """Return a version."""
    return version_fields(call, _version(call))


def get_version_text(call: Call) -> object:
    """Return the text of a version's schema."""
    return PlainText(call.registry.text_of(_version(call), call.format()))


def _version(call: Call) -> SchemaVersion:
    return call.catalog.version(call.subject(Operation.READ), call.path_text("version"), call.deleted())


def delete_version(call: Call) -> object:
    """Return the number of the version that is deleted."""
    return call.registry.delete_version(
        call.subject(Operation.DELETE), call.path_text("version"), is_permanent=call.flag("permanent")
    )


def list_referrers(call: Call) -> object:
    """Return the ids of schemas that refer to a version."""
    referrers = call.catalog.referrers(call.subject(Operation.READ), call.path_text("version"), call.deleted())
    return call.page(dict.fromkeys(referrer.id for referrer in call.readable(referrers)))


def get_latest_with_metadata(call: Call) -> object:
    """Return the newest version whose metadata has the properties of the query."""
    wanted = dict(zip(call.query_values("key"), call.query_values("value"), strict=False))
    for version in reversed(call.catalog.versions(call.subject(Operation.READ), call.deleted())):
        properties = (version.content.metadata or {}).get("properties", {})
        if wanted.items() <= properties.items():
            return version_fields(call, version)
    raise RegistryError(SCHEMA_NOT_FOUND)


_DELETED = ("deleted", "deletedOnly")
_PAGE = ("offset", "limit")
ENDPOINTS = (
    Endpoint("GET", "/subjects", "the names of subjects", list_subjects, ("subjectPrefix", *_DELETED, *_PAGE)),
    Endpoint(
        "POST",
        "/subjects/{subject}",
        "the version that has a schema",
        look_up,
        ("normalize", "format", "deleted"),
    ),
    Endpoint("DELETE", "/subjects/{subject}", "deletes a subject", delete_subject, ("permanent",), is_change=True),
    Endpoint("GET", "/subjects/{subject}/versions", "the numbers of versions", list_versions, (*_DELETED, *_PAGE)),
    Endpoint(
        "POST",
        "/subjects/{subject}/versions",
        "registers a schema",
        register,
        ("normalize",),
        is_change=True,
        unchanged=find_registered,
    ),
    Endpoint("GET", "/subjects/{subject}/versions/{version}", "a version", get_version, ("format", "deleted")),
    Endpoint(
        "DELETE",
        "/subjects/{subject}/versions/{version}",
        "deletes a version",
        delete_version,
        ("permanent",),
        is_change=True,
    ),
    Endpoint(
        "GET",
        "/subjects/{subject}/versions/{version}/schema",
        "the text of a version",
        get_version_text,
        ("format", "deleted"),
    ),
    Endpoint(
        "GET",
        "/subjects/{subject}/versions/{version}/referencedby",
        "the ids of schemas that refer to a version",
        list_referrers,
        ("deleted", *_PAGE),
    ),
    Endpoint(
        "GET",
        "/subjects/{subject}/metadata",
        "the newest version that has properties",
        get_latest_with_metadata,
        ("key", "value", "format", "deleted"),
    ),
)
