"""Sends changes on to the registry that leads, by HTTP."""

from __future__ import annotations

from urllib.request import Request

from kqueue.base.errors import KqueueError
from kqueue.config.http_client import HttpOptions, exchange
from kqueue.config.tls_client import TlsClientSettings
from kqueue.schema_registry.errors import FORWARDING_FAILED, RegistryError
from kqueue.schema_registry.rest.contract import ForwardedAnswer, ForwardedRequest

TIMEOUT_S = 40.0
"""A leader answers a change that is not confirmed after thirty seconds."""
ANSWER_BYTES_MAX = 16_000_000
JSON = "application/json"
ACCEPT_ENCODING = "accept-encoding"
"""Is not forwarded: the answer is passed on without its encoding."""


class LeaderGone(RegistryError):
    """Nothing listens at the leader's address: the request was not sent."""


class HttpForwarder:
    """The `Forwarder` over HTTP. A request keeps its headers, so the leader authenticates its user.

    Args:
        tls: whom to trust where the leader has https; None: the authorities of the system.
    """

    def __init__(self, tls: TlsClientSettings | None = None, timeout_s: float = TIMEOUT_S) -> None:
        self._options = HttpOptions(ANSWER_BYTES_MAX, timeout_s, tls)

    def forward(self, leader_url: str, request: ForwardedRequest) -> ForwardedAnswer:
        """See `Forwarder`. Raises: LeaderGone too."""
        sent = Request(
            leader_url + request.path,
            data=request.body or None,
            headers={name: value for name, value in request.headers.items() if name != ACCEPT_ENCODING},
            method=request.method,
        )
        try:
            answer = exchange(sent, self._options)
        except (OSError, ValueError, KqueueError) as error:
            is_gone = isinstance(getattr(error, "reason", error), ConnectionRefusedError)
            kind = LeaderGone if is_gone else RegistryError
            raise kind(FORWARDING_FAILED, leader=leader_url, reason=str(error)) from error
        return ForwardedAnswer(answer.status, answer.content_type or JSON, answer.body)
