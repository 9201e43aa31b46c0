"""Schemas of a registry: subjects, their versions, and each version's text.

The registry is asked with the console's own credentials, so that whoever may see the console sees
all of its schemas.
"""

from __future__ import annotations

import json

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kqueue.console.listing import listing
from kqueue.console.page import Crumb, Page
from kqueue.console.problems import Problem, UnknownResource
from kqueue.spark.errors import RegistryFailed, SchemaRefused
from kqueue.spark.value_formats.registry import Registry

TIMEOUT_S = 1.0
VERSIONS_SHOWN = 100


def schemas(request: Request) -> Response:
    """List the subjects."""
    page = Page(request)
    registry = _registry(page)
    problem: Problem | None = None
    names: list[str] = []
    if registry is not None:
        try:
            names = registry.subjects()
        except RegistryFailed as error:
            problem = _unanswered(error)
    return page.render(
        "schemas.html",
        title="Schemas",
        status=200 if problem is None else problem.status,
        problem=problem,
        is_there=registry is not None,
        listing=listing(names, page.query),
    )


def subject(request: Request) -> Response:
    """Show one version of a subject, the newest if none is named, and list the others."""
    page = Page(request)
    name = request.path_params["name"]
    registry = _registry(page)
    if registry is None:
        raise UnknownResource("The console has no schema registry.")
    problem: Problem | None = None
    shown, versions = None, list[int]()
    try:
        versions = registry.versions(name)
        chosen = page.query.get("version", "")
        if not versions or (chosen and not (chosen.isdecimal() and int(chosen) in versions)):
            raise UnknownResource(f"There is no subject {name!r} with such a version.")
        shown = registry.version(name, int(chosen or versions[-1]))
    except (RegistryFailed, SchemaRefused) as error:
        problem = _unanswered(error)
    return page.render(
        "schema.html",
        title=name,
        crumbs=(Crumb("Schemas", "/schemas"),),
        status=200 if problem is None else problem.status,
        problem=problem,
        name=name,
        schema=shown,
        text="" if shown is None else _indented(shown.text),
        versions=versions[: -VERSIONS_SHOWN - 1 : -1],
    )


def _registry(page: Page) -> Registry | None:
    settings = page.console.options.schemas
    if settings is None or settings.registry is None:
        return None
    return Registry(settings.registry, "avro", TIMEOUT_S)


def _unanswered(error: Exception) -> Problem:
    return Problem(503, "No answer of the registry", f"{error}.", "Look at the address, and whether it runs.")


def _indented(text: str) -> str:
    """Return JSON on several lines; what is no JSON, as Protobuf, as it is."""
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return text


ROUTES = [Route("/schemas", schemas), Route("/schemas/{name:path}", subject)]
