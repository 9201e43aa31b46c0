"""`registry_app`: the tables of endpoints as one ASGI application."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from kqueue.schema_registry.errors import BAD_REQUEST, PATH_NOT_FOUND, RegistryError
from kqueue.schema_registry.registry import Registry
from kqueue.schema_registry.rest import compatibility, configs, contexts, metadata, modes, schemas, subjects
from kqueue.schema_registry.rest.answers import error_answer
from kqueue.schema_registry.rest.call import Endpoint
from kqueue.schema_registry.rest.contract import (
    NO_CLUSTER,
    Authenticator,
    Authorizer,
    ClusterIds,
    Forwarder,
    Leadership,
    Observe,
    SoleLeader,
)
from kqueue.schema_registry.rest.dispatch import Dispatcher
from kqueue.schema_registry.rest.resource import Resource

ENDPOINTS: tuple[Endpoint, ...] = (
    *metadata.ENDPOINTS,
    *subjects.ENDPOINTS,
    *schemas.ENDPOINTS,
    *compatibility.ENDPOINTS,
    *configs.ENDPOINTS,
    *modes.ENDPOINTS,
    *contexts.ENDPOINTS,
)
"""All that is served, as the documentation lists it."""


def registry_app(
    registry: Registry,
    *,
    leadership: Leadership | None = None,
    forwarder: Forwarder | None = None,
    authenticator: Authenticator | None = None,
    authorizer: Authorizer | None = None,
    cluster: ClusterIds = NO_CLUSTER,
    observe: Observe | None = None,
) -> ASGIApp:
    """Return the application of a registry.

    Args:
        leadership: None: this registry has its log for itself.
        forwarder: sends changes to the leader; None: they are refused where another one leads.
        authenticator: None: users have no names.
        authorizer: None: everybody may do everything.
        cluster: what `/v1/metadata/id` says.
        observe: called with each answer; None: nothing counts them.
    """
    dispatcher = Dispatcher(
        registry,
        leadership=leadership or SoleLeader(),
        forwarder=forwarder,
        authenticator=authenticator,
        authorizer=authorizer,
        cluster=cluster,
        observe=observe,
    )
    app = Starlette(
        routes=[Route(path, Resource(rows, dispatcher)) for path, rows in _by_path(ENDPOINTS).items()],
        middleware=[Middleware(PathsAsSent)],
        exception_handlers={HTTPException: _no_resource},
    )
    app.router.redirect_slashes = False
    return app


def _by_path(endpoints: Sequence[Endpoint]) -> dict[str, dict[str, Endpoint]]:
    """Return the endpoints by method, by path."""
    paths: dict[str, dict[str, Endpoint]] = defaultdict(dict)
    for endpoint in endpoints:
        paths[endpoint.path][endpoint.method] = endpoint
    return paths


def _no_resource(request: Request, error: Exception) -> Response:
    """Answer for a path without a route. Methods of those with one are `Resource`'s."""
    assert isinstance(error, HTTPException)
    return error_answer(RegistryError(PATH_NOT_FOUND, path=request.scope["path"][:200]))


class PathsAsSent:
    """Routes by the path as it was sent, percent-encoded: a subject may contain a slash. A path
    below `/contexts/{context}` becomes the one that names the context in the subject.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] == "http":
            try:
                raw = (scope.get("raw_path") or quote(scope["path"]).encode()).decode("ascii").partition("?")[0]
                query = scope["query_string"].decode("ascii")
            except UnicodeDecodeError:
                error = RegistryError(BAD_REQUEST, reason="The path must be ASCII, others percent-encoded.")
                await error_answer(error)(scope, receive, send)
                return
            path, query = contexts.path_in_context(raw.rstrip("/") or "/", query)
            scope = {**scope, "path": path, "raw_path": path.encode(), "query_string": query.encode(), "root_path": ""}
        await self._app(scope, receive, send)
