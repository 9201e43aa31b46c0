"""Errors of `kqueue.client`: which broker, request and partition a call failed for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kqueue.base.errors import KqueueError


class ClientError(KqueueError):
    """A call of `kqueue.client` that failed; the message says which broker, request and partition
    it was about, and what to do.

    `broker`: ``host:port``, "" where it is not one broker's; `api`: the request's name in the
    protocol; `topic`, `partition`: None where it is about none. Of a call about many partitions
    that failed for some: `failed` has the error of each, by (topic, partition), and `done` what the
    others gave. It can be pickled, without `done`.
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
    """No connection could be made, or none was answered; nothing was asked."""


class ConnectionLost(ClientError):
    """A connection ended, or stayed silent, before the answer was there.

    `sent`: whether the broker may have got the request, and done what it asks.
    """

    sent = True


class DeadlinePassed(ClientError):
    """The call's time is over; its `__cause__` is what was met last."""


class BadAnswer(ClientError):
    """Bytes that can't be the answer to what was asked: not a broker, a broken one, or one that
    means harm.
    """


class IncompatibleBroker(ClientError):
    """The broker and this client know no version of a request in common."""


class BrokerRefused(ClientError):
    """A broker answered with an error. `code`: its number in the protocol, `code_name`: its name
    there.
    """

    code = -1
    code_name = "UNKNOWN_SERVER_ERROR"


class FetchOutOfRange(BrokerRefused):
    """A fetch from before the log's start or beyond its end. No other error was among those of
    `failed`.
    """
