"""Errors of `kqueue.client`: which broker, request and partition a call failed for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kqueue.base.errors import KqueueError


class ClientError(KqueueError):
    """A failed call of `kqueue.client`; the message names the broker, request and partition.

    `broker`: ``host:port``, "" if no single broker. `api`: the request's name in the protocol.
    `topic`, `partition`: None if it is about none. For a call about many partitions: `failed` has
    the error of each failed one, by (topic, partition), and `done` the results of the others. Can
    be pickled, without `done`.
    """

    def __init__(
        self, message: str, *, broker: str = "", api: str = "", topic: str | None = None, partition: int | None = None
    ) -> None:
        super().__init__(message)
        self.broker = broker
        self.api = api
        self.topic = topic
        self.partition = partition
        self.failed: Mapping[Any, ClientError] = {}
        self.done: Mapping[Any, Any] = {}

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), self.args, {**vars(self), "done": {}}


class BrokerUnreachable(ClientError):
    """No connection could be opened, or no broker responded on it; no request was sent."""


class NotAuthenticated(ClientError):
    """The broker's certificate is not trusted, or it does not accept this client's credentials."""


class ConnectionLost(ClientError):
    """The connection ended, or no response arrived in time.

    `sent`: whether the broker may have received the request, and executed it.
    """

    sent = True


class DeadlinePassed(ClientError):
    """The call's timeout expired; `__cause__` is the last error."""


class Interrupted(ClientError):
    """Another thread interrupted the client. A request under way may have been executed."""


class BadAnswer(ClientError):
    """Bytes that cannot be the response: not a broker, a faulty one, or a hostile one."""


class IncompatibleBroker(ClientError):
    """The broker and this client have no version of a request in common."""


class BrokerRefused(ClientError):
    """A broker responded with an error. `code`, `code_name`: number and name of the error.
    `broker_message`: the broker's own sentence, where the response has one.
    """

    code = -1
    code_name = "UNKNOWN_SERVER_ERROR"
    broker_message: str | None = None


class FetchOutOfRange(BrokerRefused):
    """A fetch below the log start or beyond the log end. `failed` has no other kind of error."""
