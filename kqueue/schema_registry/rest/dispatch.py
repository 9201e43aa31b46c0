"""Serves one endpoint: who asks, whether the leader has to do it, and what comes of it."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from starlette.responses import Response

from kqueue.base import events
from kqueue.base.clock import monotonic_s
from kqueue.schema_registry.errors import INTERNAL_ERROR, UNAUTHORIZED, UNKNOWN_LEADER, RegistryError
from kqueue.schema_registry.registry import Registry
from kqueue.schema_registry.rest.answers import answer, error_answer
from kqueue.schema_registry.rest.body import parse_body
from kqueue.schema_registry.rest.call import Call, Endpoint
from kqueue.schema_registry.rest.contract import (
    Authenticator,
    Authorizer,
    ClusterIds,
    Credentials,
    ForwardedRequest,
    Forwarder,
    Leadership,
    Observe,
)
from kqueue.schema_registry.rest.media_types import check_content_type, chosen_type

logger = logging.getLogger(__name__)
FORWARDED_HEADER = "x-forward"
"""Its value `false` says that a registry sent the request on, so that it goes no further."""
WITH_BODY = ("POST", "PUT")
"""The methods whose bodies are read; clients send some to others that mean nothing."""
OF_CONNECTION = frozenset(
    {
        "connection",
        "content-length",
        "expect",
        "host",
        "keep-alive",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""Headers that hold for one connection, and are not forwarded."""


class ReceivedRequest(NamedTuple):
    """A request with its whole body.

    Attributes:
        path, query: as sent, percent-encoded.
        variables: of the path, percent-encoded.
        parameters: of the query, decoded.
        headers: the names in lower case.
    """

    path: str
    query: str
    variables: Mapping[str, str]
    parameters: Sequence[tuple[str, str]]
    headers: Mapping[str, str]
    body: bytes
    credentials: Credentials


class Dispatcher:
    """Serves endpoints. Thread: any; each request has its own."""

    def __init__(
        self,
        registry: Registry,
        *,
        leadership: Leadership,
        forwarder: Forwarder | None,
        authenticator: Authenticator | None,
        authorizer: Authorizer | None,
        cluster: ClusterIds,
        observe: Observe | None = None,
    ) -> None:
        self.body_bytes_max = registry.limits.body_bytes_max
        self._registry = registry
        self._leadership = leadership
        self._forwarder = forwarder
        self._authenticator = authenticator
        self._authorizer = authorizer
        self._cluster = cluster
        self._observe = observe

    def serve(self, endpoint: Endpoint, request: ReceivedRequest) -> Response:
        """Return the response of an endpoint, whatever happens."""
        if self._observe is None:
            return self._answered(endpoint, request)
        began_s = monotonic_s()
        response = self._answered(endpoint, request)
        self._observe(endpoint.method, endpoint.path, response.status_code, monotonic_s() - began_s)
        return response

    def _answered(self, endpoint: Endpoint, request: ReceivedRequest) -> Response:
        try:
            return self._served(endpoint, request)
        except RegistryError as error:
            return error_answer(error, self._headers_of(error))
        except Exception as error:
            events.REGISTRY_INTERNAL_ERROR.log(
                logger, "%s %s failed: %s", method=endpoint.method, path=request.path, error=error, exc_info=True
            )
            return error_answer(RegistryError(INTERNAL_ERROR))

    def _served(self, endpoint: Endpoint, request: ReceivedRequest) -> Response:
        user = None if self._authenticator is None else self._authenticator.authenticate(request.credentials)
        media_type = chosen_type(request.headers.get("accept"))
        body = None
        if request.body and endpoint.method in WITH_BODY:
            check_content_type(request.headers.get("content-type"))
            body = parse_body(request.body)
        call = Call(
            self._registry,
            path=request.variables,
            query=request.parameters,
            headers=request.headers,
            body=body,
            user=user,
            authorizer=self._authorizer,
            cluster=self._cluster,
        )
        if endpoint.unchanged is not None:
            unchanged = endpoint.unchanged(call)
            if unchanged is not None:
                return answer(unchanged, media_type)
        if endpoint.is_change and not self._leadership.is_leader():
            return self._forwarded(endpoint, request)
        try:
            return answer(endpoint.handle(call), media_type)
        except RegistryError as error:
            # Deposed while the change waited for others: registering may be done again.
            if error.kind is not UNKNOWN_LEADER or endpoint.unchanged is None:
                raise
        if not self._leadership.is_leader():
            return self._forwarded(endpoint, request)
        return answer(endpoint.handle(call), media_type)

    def _forwarded(self, endpoint: Endpoint, request: ReceivedRequest) -> Response:
        leader_url = self._leadership.leader_url()
        was_forwarded = request.headers.get(FORWARDED_HEADER, "").lower() == "false"
        if leader_url is None or self._forwarder is None or was_forwarded:
            raise RegistryError(UNKNOWN_LEADER)
        headers = {name: value for name, value in request.headers.items() if name not in OF_CONNECTION}
        forwarded = ForwardedRequest(
            endpoint.method,
            request.path + (f"?{request.query}" if request.query else ""),
            {**headers, FORWARDED_HEADER: "false"},
            request.body,
        )
        status, content_type, body = self._forwarder.forward(leader_url, forwarded)
        return Response(body, status, media_type=content_type)

    def _headers_of(self, error: RegistryError) -> dict[str, str]:
        if self._authenticator is not None and error.code == UNAUTHORIZED.code:
            return {"www-authenticate": self._authenticator.challenge}
        return {}
