"""The sender against a producer without a broker: confirmation, retries, rejection, timeout."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.errors import KafkaTimeoutError, MessageSizeTooLargeError

from kqueue.collect import line_sender
from kqueue.collect.line_sender import BrokerTimeout, BrokerUnreachable, LineRejected, LineSender, headers_of
from kqueue.collect.tailed_file import Line

LINES = [Line(b"a", "/app.log", "s1", 0, None), Line(b"b", "/app.log", "s1", 2, None)]


class Future:
    """A confirmation, or a failure, that is there at once."""

    is_done = True

    def __init__(self, offset: int, exception: Exception | None) -> None:
        self.value = SimpleNamespace(partition=0, offset=offset)
        self.exception = exception

    def succeeded(self) -> bool:
        return self.exception is None


class Producer:
    """Fails the records whose value is in `failures`, each once for each error."""

    def __init__(self, access: Access) -> None:
        self._access = access

    def send(self, topic: str, value: bytes, key: bytes | None, headers: list[tuple[str, bytes]]) -> Future:
        errors = self._access.failures.get(value, [])
        self._access.sent.append((value, key))
        return Future(len(self._access.sent), errors.pop(0) if errors else None)

    def flush(self, timeout: float) -> None:
        pass

    def close(self, timeout: float) -> None:
        self._access.closed += 1

    def partitions_for(self, topic: str) -> set[int]:
        if self._access.is_missing_for_ever:
            raise KafkaTimeoutError
        return {0, 1}


class Access:
    """A broker that refuses the first `unreachable` connections."""

    def __init__(self, unreachable: int = 0) -> None:
        self.unreachable = unreachable
        self.failures: dict[bytes, list[Exception]] = {}
        self.sent: list[tuple[bytes, bytes | None]] = []
        self.closed = 0
        self.is_missing = False
        self.is_missing_for_ever = False

    def connect(self) -> Any:
        if self.unreachable:
            self.unreachable -= 1
            raise BrokerUnreachable("no broker answers")
        return Producer(self)

    def explain(self, error: BaseException) -> str:
        return type(error).__name__

    def topic_creation(self) -> Any:
        return SimpleNamespace(
            is_missing=self.is_missing, nearest="; did you mean 'log'?", created=lambda count: f"created with {count}"
        )


class Stop(threading.Event):
    """Advances the clock instead of waiting."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0

    def wait(self, timeout: float | None = None) -> bool:
        self.now_s += timeout or 0.0
        return self.is_set()


def sender(access: Access, *, timeout_s: float | None = None) -> tuple[LineSender, Stop, list[str]]:
    stop, told = Stop(), []
    return (
        LineSender(
            "logs",
            access,
            host="h",
            key="name",
            stop=stop,
            tell=told.append,
            timeout_s=timeout_s,
            now_s=lambda: stop.now_s,
        ),
        stop,
        told,
    )


def test_confirmed_lines_are_counted_and_their_ends_kept() -> None:
    access = Access()
    lines, _, told = sender(access)
    assert lines.send(LINES)
    assert (lines.sent, lines.ends, told) == (2, {0: 3}, [])
    assert access.sent == [(b"a", b"app.log"), (b"b", b"app.log")]


def test_an_unconfirmed_line_is_sent_again_over_a_new_connection() -> None:
    access = Access()
    access.failures[b"b"] = [KafkaTimeoutError()]
    lines, _, told = sender(access)
    assert lines.send(LINES)
    assert [value for value, _ in access.sent] == [b"a", b"b", b"b"]
    assert access.closed == 1
    assert told == ["waiting for the broker: KafkaTimeoutError", "the broker answers again"]


def test_a_broker_that_is_away_is_reported_once_and_awaited() -> None:
    lines, stop, told = sender(Access(unreachable=3))
    assert lines.send(LINES)
    assert told == ["waiting for the broker: no broker answers", "the broker answers again"]
    assert stop.now_s == sum(line_sender.BACKOFF_S[:3])


def test_a_rejected_line_is_named() -> None:
    access = Access()
    access.failures[b"b"] = [MessageSizeTooLargeError()]
    lines, _, _ = sender(access)
    with pytest.raises(LineRejected, match=r"byte 2 of /app\.log: MessageSizeTooLargeError\. The position stays"):
        lines.send(LINES)


def test_after_the_timeout_it_gives_up() -> None:
    lines, stop, _ = sender(Access(unreachable=1000), timeout_s=7.0)
    with pytest.raises(BrokerTimeout, match=r"no broker answers; gave up after 7 s"):
        lines.send(LINES)
    assert stop.now_s == 7.0


def test_a_stop_ends_the_retries() -> None:
    lines, stop, _ = sender(Access(unreachable=1000))
    stop.set()
    assert not lines.send(LINES)
    assert lines.sent == 0


def test_a_topic_that_the_broker_creates_is_reported() -> None:
    access = Access(unreachable=1)
    access.is_missing = True
    lines, _, told = sender(access)
    assert lines.check_topic()
    assert told == ["waiting for the broker: no broker answers", "created with 2"]


def test_a_topic_that_is_missing_ends_it_with_a_suggestion() -> None:
    access = Access()
    access.is_missing_for_ever = True
    lines, _, _ = sender(access)
    with pytest.raises(LineRejected, match=r"there is no topic 'logs', .*; did you mean 'log'\?"):
        lines.check_topic()


def test_headers_identify_the_line() -> None:
    assert headers_of(LINES[1], "h") == [("host", b"h"), ("file", b"/app.log"), ("source", b"s1"), ("offset", b"2")]
    assert headers_of(LINES[1]._replace(part=3), "h")[-1] == ("part", b"3")
