"""One request to another broker, and the codec of its class on a connection."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from kqueue.base import events
from kqueue.client_protocol.requests import RequestCodec, codec_of, encode_request
from kqueue.client_protocol.versions import NoCommonVersion, Versions, common_version
from kqueue.interbroker.contract import PeerCallback
from kqueue.interbroker.errors import PeerIncompatible
from kqueue.schema import Chunk, message_schema_of
from kqueue.wire.apis import BY_KEY

logger = logging.getLogger("kqueue.server")


class PeerRequest:
    """One request, until `finish`."""

    __slots__ = ("_done", "codec", "correlation_id", "deadline_ms", "request")

    def __init__(self, request: object, done: PeerCallback, deadline_ms: float) -> None:
        self._done: PeerCallback | None = done
        self.request: object | None = request  # None once it is sent
        self.deadline_ms = deadline_ms
        self.correlation_id = 0
        self.codec: RequestCodec

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
                events.INTERNAL_ERROR.log(logger, "handling a response of another broker failed", exc_info=True)

    def encoded(self, correlation_id: int, client_id: str) -> list[Chunk]:
        """Return its bytes by `codec`, and forget its message.

        Raises: UnsupportedVersion, UnencodableMessage: a field has a value that the version can't
            send.
        """
        self.correlation_id = correlation_id
        chunks = encode_request(self.codec, self.request, correlation_id, client_id)
        self.request = None
        return chunks


def negotiated_codec(request_class: type, served: Mapping[int, Versions], name: str) -> RequestCodec:
    """Return the codec of a class of requests at the highest version of both sides.

    Args:
        served: versions of each API, by key, that the broker serves.
        name: of the broker.
    Raises: PeerIncompatible: there is none.
    """
    key = message_schema_of(request_class).api_key
    assert key is not None, "not a request"
    api = BY_KEY[key]
    try:
        return codec_of(api, common_version(api, served))
    except NoCommonVersion as error:
        raise PeerIncompatible(f"{name}: {error}") from None
