"""One request to another broker, and how requests of its class are sent."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from kqueue.interbroker.contract import PeerCallback
from kqueue.interbroker.errors import PeerIncompatible
from kqueue.schema import Chunk, counted_reader, message_schema_of, writer
from kqueue.wire.apis import BY_KEY, Api
from kqueue.wire.frame import frame_length
from kqueue.wire.headers import request_header

logger = logging.getLogger("kqueue.server")


class PeerRoute(NamedTuple):
    """The API, version and codec of one class of requests."""

    api: Api
    version: int
    write: Callable[[Any, list[Chunk]], None]
    read: Callable[[memoryview, int, int], tuple[Any, int]]


class PeerRequest:
    """One request, until `finish`."""

    __slots__ = ("_done", "correlation_id", "deadline_ms", "request", "route")

    def __init__(self, request: object, done: PeerCallback, deadline_ms: float) -> None:
        self._done: PeerCallback | None = done
        self.request: object | None = request  # None once it is sent
        self.deadline_ms = deadline_ms
        self.correlation_id = 0
        self.route: PeerRoute

    @property
    def pending(self) -> bool:
        """Whether it is neither finished nor cancelled."""
        return self._done is not None

    def cancel(self) -> None:
        """Call `done` no more."""
        self._done = None

    def finish(self, outcome: object) -> None:
        """Call `done` with a response or PeerError, unless it was called or the request cancelled.

        An error in `done` is logged: it is a bug, and of this request only.
        """
        done, self._done = self._done, None
        if done is not None:
            try:
                done(outcome)
            except Exception:
                logger.exception("handling a response of another broker failed")

    def encoded(self, correlation_id: int, client_id: str) -> list[Chunk]:
        """Return its bytes for `route`, and forget its message.

        Raises: UnsupportedVersion, UnencodableMessage: a field has a value that the version can't
            send.
        """
        api, version, write, _ = self.route
        self.correlation_id = correlation_id
        chunks: list[Chunk] = [request_header(api.key, version, correlation_id, client_id)]
        write(self.request, chunks)
        self.request = None
        return [frame_length(chunks), *chunks]


def route_at(api: Api, version: int) -> PeerRoute:
    """Return the route of an API at one version."""
    return PeerRoute(api, version, writer(api.request_class, version), counted_reader(api.response_class, version))


def negotiated_route(request_class: type, served: Mapping[int, tuple[int, int]], name: str) -> PeerRoute:
    """Return the route at the highest version of both sides.

    Args:
        served: lowest and highest version of each API, by key, that the broker serves.
        name: of the broker.
    Raises: PeerIncompatible: there is none.
    """
    key = message_schema_of(request_class).api_key
    assert key is not None, "not a request"
    api = BY_KEY[key]
    low, high = api.versions
    served_low, served_high = served.get(key, (1, 0))
    version = min(high - api.unstable, served_high)
    if version < max(low, served_low):
        has = f"has {served_low} to {served_high}" if key in served else "does not serve it"
        raise PeerIncompatible(f"{name}: {api.name} is needed in versions {low} to {high}, and that broker {has}")
    return route_at(api, version)
