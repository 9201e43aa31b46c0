"""A resource: the endpoints of one path, as an ASGI application."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from kqueue.schema_registry.errors import METHOD_NOT_ALLOWED, RegistryError
from kqueue.schema_registry.rest.answers import error_answer
from kqueue.schema_registry.rest.body import read_body
from kqueue.schema_registry.rest.call import Endpoint
from kqueue.schema_registry.rest.contract import Credentials
from kqueue.schema_registry.rest.dispatch import Dispatcher, ReceivedRequest


class Resource:
    """Serves one path. HEAD is GET without the body, OPTIONS names the methods.

    Args: endpoints: by their methods.
    """

    def __init__(self, endpoints: Mapping[str, Endpoint], dispatcher: Dispatcher) -> None:
        self._endpoints = endpoints
        self._dispatcher = dispatcher
        methods = {*endpoints, "OPTIONS"} | ({"HEAD"} if "GET" in endpoints else set())
        self._allowed = ", ".join(sorted(methods))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        request = Request(scope, receive)
        try:
            response = await self._response(request)
        except RegistryError as error:
            response = error_answer(error, {"allow": self._allowed} if error.kind is METHOD_NOT_ALLOWED else None)
        except ClientDisconnect:
            return
        if request.method == "HEAD":
            length = response.headers["content-length"]
            response.body = b""
            response.headers["content-length"] = length
        await response(scope, receive, send)

    async def _response(self, request: Request) -> Response:
        if request.method == "OPTIONS":
            return Response(status_code=200, headers={"allow": self._allowed})
        endpoint = self._endpoints.get("GET" if request.method == "HEAD" else request.method)
        if endpoint is None:
            raise RegistryError(METHOD_NOT_ALLOWED, method=request.method[:20], allowed=self._allowed)
        body = await read_body(request.stream(), request.headers.get("content-length"), self._dispatcher.body_bytes_max)
        client = None if request.client is None else (request.client.host, request.client.port)
        received = ReceivedRequest(
            request.scope["path"],
            request.scope["query_string"].decode("ascii"),
            request.path_params,
            request.query_params.multi_items(),
            dict(request.headers),
            body,
            Credentials(request.headers.get("authorization"), client, request.scope),
        )
        return await run_in_threadpool(self._dispatcher.serve, endpoint, received)
