"""Traffic that a simulated network partition holds back."""

from __future__ import annotations

from kqueue.network.contract import Connection
from kqueue.network.interception import HeldRequest, InterceptedRequest


class HeldTraffic:
    """Requests and connections that wait until `release`: no bytes pass, and nothing is closed.

    Thread: that of the broker.
    """

    def __init__(self) -> None:
        self._requests: dict[HeldRequest, None] = {}
        self._connections: dict[Connection, None] = {}

    def hold(self, asked: InterceptedRequest) -> None:
        """Hold a request back, and its connection."""
        self._requests[asked.hold()] = None
        self.suspend(asked.connection)

    def suspend(self, connection: Connection) -> None:
        """Neither read from a connection nor send to it."""
        self._connections[connection] = None
        connection.suspend_io()

    def release(self) -> None:
        """Let all continue."""
        while self._connections:
            connection, _ = self._connections.popitem()
            connection.resume_io()
        while self._requests:
            request, _ = self._requests.popitem()
            request.release()
