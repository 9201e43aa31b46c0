"""`/schemas`: schemas by id and GUID, and the versions of all subjects."""

from __future__ import annotations

from kqueue.schema_registry.errors import SCHEMA_ID_NOT_FOUND, SCHEMA_NOT_FOUND, RegistryError
from kqueue.schema_registry.rest.call import Call, Endpoint, PlainText
from kqueue.schema_registry.rest.contract import Operation
from kqueue.schema_registry.rest.schema_fields import schema_fields, version_fields
from kqueue.schema_registry.schemas import TYPE_NAMES
from kqueue.schema_registry.state.schema_version import SchemaVersion


def list_schemas(call: Call) -> object:
    """Return the versions of all subjects."""
    versions = call.catalog.all_versions(
        call.query.get("subjectPrefix", ""), call.deleted(), is_latest_only=call.flag("latestOnly")
    )
    page = call.page(call.readable(versions), call.registry.limits.schemas_listed_max)
    return [version_fields(call, version) for version in page]


def get_schema(call: Call) -> object:
    """Return the schema of an id."""
    fields = schema_fields(call, _version(call))
    if call.flag("fetchMaxId"):
        fields["maxId"] = call.catalog.max_id(call.query_subject())
    return fields


def get_schema_text(call: Call) -> object:
    """Return the text of the schema of an id."""
    return PlainText(call.registry.text_of(_version(call), call.format()))


def list_subjects(call: Call) -> object:
    """Return the subjects of an id."""
    return call.page(dict.fromkeys(str(version.subject) for version in _versions_of_id(call)))


def list_versions(call: Call) -> object:
    """Return the subjects and versions of an id."""
    return call.page({"subject": str(version.subject), "version": version.version} for version in _versions_of_id(call))


def _versions_of_id(call: Call) -> list[SchemaVersion]:
    """Return the versions of the path's id that the user may read, of the query's subject if it
    names one.
    """
    wanted = call.query_subject()
    versions = call.catalog.schema_versions(call.schema_id(), wanted, call.deleted())
    return [
        version
        for version in call.readable(versions)
        if wanted is None or wanted.is_context or version.subject.subject == wanted.subject
    ]


def _version(call: Call) -> SchemaVersion:
    """Return a version with the path's id that the user may read."""
    schema_id, subject = call.schema_id(), call.query_subject()
    version = call.catalog.schema(schema_id, subject)
    if call.is_allowed(Operation.READ, version.subject):
        return version
    for version in call.readable(call.catalog.schema_versions(schema_id, subject)):
        return version
    raise RegistryError(SCHEMA_ID_NOT_FOUND, id=schema_id)


def get_schema_of_guid(call: Call) -> object:
    """Return the schema of a GUID."""
    for version in call.readable(call.catalog.schema_of_guid(call.path_text("guid"))):
        return schema_fields(call, version)
    raise RegistryError(SCHEMA_NOT_FOUND)


def list_ids_of_guid(call: Call) -> object:
    """Return the contexts and ids of a GUID."""
    versions = list(call.readable(call.catalog.schema_of_guid(call.path_text("guid"))))
    if not versions:
        raise RegistryError(SCHEMA_NOT_FOUND)
    ids = sorted({(version.subject.context, version.id) for version in versions})
    return [{"context": context, "id": schema_id} for context, schema_id in ids]


def list_types(call: Call) -> object:
    """Return the names of the schema types."""
    return list(TYPE_NAMES)


_PAGE = ("offset", "limit")
ENDPOINTS = (
    Endpoint(
        "GET",
        "/schemas",
        "the versions of all subjects",
        list_schemas,
        ("subjectPrefix", "deleted", "latestOnly", "format", *_PAGE),
    ),
    Endpoint("GET", "/schemas/types", "the names of the schema types", list_types),
    Endpoint("GET", "/schemas/ids/{id}", "the schema of an id", get_schema, ("subject", "format", "fetchMaxId")),
    Endpoint("GET", "/schemas/ids/{id}/schema", "its text", get_schema_text, ("subject", "format")),
    Endpoint("GET", "/schemas/ids/{id}/subjects", "its subjects", list_subjects, ("subject", "deleted", *_PAGE)),
    Endpoint(
        "GET",
        "/schemas/ids/{id}/versions",
        "its subjects and versions",
        list_versions,
        ("subject", "deleted", *_PAGE),
    ),
    Endpoint("GET", "/schemas/guids/{guid}", "the schema of a GUID", get_schema_of_guid, ("format",)),
    Endpoint("GET", "/schemas/guids/{guid}/ids", "its contexts and ids", list_ids_of_guid),
)
