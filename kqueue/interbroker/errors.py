"""Errors of requests to other brokers. The message names the node, its address and the request."""

from __future__ import annotations

from kqueue.base.errors import KqueueError


class PeerError(KqueueError):
    """A request to another broker has no response."""


class PeerUnavailable(PeerError):
    """No connection to the broker: it is unknown, was not reached, or has ended the connection.

    `sent`: whether the broker may have received the request, and executed it.
    """

    def __init__(self, message: str, *, sent: bool = False) -> None:
        super().__init__(message)
        self.sent = sent


class PeerTimedOut(PeerUnavailable):
    """No response arrived in time."""


class PeerIncompatible(PeerError):
    """The broker and this one have no version of a request in common; nothing was sent."""


class BadPeerResponse(PeerError):
    """Bytes that cannot be the response: not a broker, a faulty one, or a hostile one."""
