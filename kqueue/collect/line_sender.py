"""Sends lines as records and waits for their confirmation, also while the broker is unavailable."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from kqueue.base.clock import monotonic_s
from kqueue.client.kafka_python import FLUSH_RETRY_S
from kqueue.collect.tailed_file import Line

if TYPE_CHECKING:
    from kafka import KafkaProducer

KEYS: dict[str, Callable[[Line, str], bytes | None]] = {
    "path": lambda line, host: as_bytes(line.name),
    "name": lambda line, host: as_bytes(Path(line.name).name),
    "host": lambda line, host: as_bytes(host),
    "none": lambda line, host: None,
}
BATCH_BYTES = 512 * 1024
CONNECT_TIMEOUT_MS = 5_000
# As long as this the client retries by itself, with sequence numbers that prevent duplicates.
DELIVERY_TIMEOUT_MS = 24 * 60 * 60 * 1000
RECONNECT_MS_MAX = 5_000
BACKOFF_S = (0.5, 1.0, 2.0, 5.0, 10.0)
# Delay before the notice that the broker does not answer; its time to answer after Ctrl-C.
CONFIRMATION_TIMEOUT_S = 5.0
FLUSH_S = 0.2
PERMANENT = (
    "MessageSizeTooLargeError",
    "RecordListTooLargeError",
    "InvalidRecordError",
    "InvalidTimestampError",
    "InvalidTopicError",
    "TopicAuthorizationFailedError",
)


def as_bytes(text: str) -> bytes:
    """Return `text` as UTF-8; surrogate escapes of file names become their original bytes."""
    return text.encode(errors="surrogateescape")


def headers_of(line: Line, host: str) -> list[tuple[str, bytes]]:
    """Return ``host``, ``file``, ``source`` and ``offset``; and ``part`` for a line in parts."""
    headers = [
        ("host", as_bytes(host)),
        ("file", as_bytes(line.name)),
        ("source", line.source.encode()),
        ("offset", b"%d" % line.offset),
    ]
    return headers if line.part is None else [*headers, ("part", b"%d" % line.part)]


class BrokerUnreachable(Exception):
    """No broker accepts a connection; the message is a sentence."""


class LineRejected(Exception):
    """The broker rejects a record permanently; the message is a sentence."""


class BrokerTimeout(LineRejected):
    """The broker did not answer within the timeout."""


class TopicCreation(Protocol):
    """Whether the topic existed before a request that may create it."""

    @property
    def is_missing(self) -> bool:
        """Whether the topic did not exist; False where that is not known."""

    @property
    def nearest(self) -> str:
        """A suggestion such as ``; did you mean 'orders'?``, or nothing."""

    def created(self, partitions: int) -> str:
        """Return the sentence that reports a created topic."""


class BrokerAccess(Protocol):
    """The calls with which the sender reaches its broker and words its errors."""

    def connect(self) -> KafkaProducer:
        """Return a new producer. Raises: BrokerUnreachable, KafkaError, OSError."""

    def explain(self, error: BaseException) -> str:
        """Return a sentence about an error of the client library."""

    def topic_creation(self) -> TopicCreation:
        """Return whether the topic exists now."""


class LineSender:
    """Sends lines to a topic and waits for as long as the broker takes to confirm them.

    Args:
        topic: name of the topic.
        access: of the broker.
        host: value of the header `host`.
        key: one of `KEYS`.
        stop: once it is set, the sender gives up as soon as it can; its `wait` is the pause.
        tell: receives sentences for the user.
        timeout_s: how long the broker may be silent before `BrokerTimeout`; None: no limit.
        now_s: a monotonic clock, seconds.
    """

    def __init__(
        self,
        topic: str,
        access: BrokerAccess,
        *,
        host: str,
        key: str,
        stop: threading.Event,
        tell: Callable[[str], None],
        timeout_s: float | None = None,
        now_s: Callable[[], float] = monotonic_s,
    ) -> None:
        self.topic = topic
        self.sent = 0
        self.ends: dict[int, int] = {}
        """By partition, the offset after the last record of this agent that was confirmed."""
        self._access = access
        self._host = host
        self._key_of = KEYS[key]
        self._stop = stop
        self._tell = tell
        self._now_s = now_s
        self._producer: KafkaProducer | None = None
        self._silent = False
        self._silent_since_s = 0.0
        self._timeout_s = timeout_s

    def close(self) -> None:
        """Close the connection without waiting for unconfirmed records."""
        producer, self._producer = self._producer, None
        if producer is not None:
            from kafka.errors import KafkaTimeoutError

            try:
                producer.close(timeout=0)
            except KafkaTimeoutError:
                # It does not close with a request in flight, which cannot be cancelled otherwise.
                producer._sender.force_close()

    def send(self, lines: Sequence[Line]) -> bool:
        """Send lines; return True once all are confirmed, False if the sender was stopped first.

        A record is sent once, unless it stays unconfirmed for a day or the broker forgets the
        producer's state.

        Raises: LineRejected: the broker rejects a record permanently.
        """
        unconfirmed: Sequence[Line] = lines
        for attempt in range(1_000_000_000):
            unconfirmed, reason = self._attempt(unconfirmed)
            if not unconfirmed:
                break
            if not self._stop.is_set():
                self._report_silence(reason)
                self._back_off(attempt)
            if self._stop.is_set():
                return False
        if self._silent:
            self._silent = False
            self._tell("the broker answers again")
        self.sent += len(lines)
        return True

    def _attempt(self, lines: Sequence[Line]) -> tuple[list[Line], str]:
        """Send once; return the lines that are not confirmed, and the reason."""
        from kafka.errors import KafkaError, KafkaTimeoutError

        sent: list[tuple[Line, Any]] = []
        reason = ""
        try:
            producer = self._connected()
            for line in lines:
                sent.append((line, self._send(producer, line)))  # noqa: PERF401  keeps what precedes an error
        except BrokerUnreachable as error:
            reason = str(error)
        except (KafkaTimeoutError, OSError) as error:
            reason = self._access.explain(error)
        except KafkaError as error:
            raise LineRejected(self._rejection(lines[len(sent)], error)) from None
        self._await([future for _, future in sent])
        unconfirmed = []
        for line, future in sent:
            if future.succeeded():
                self.ends[future.value.partition] = max(
                    self.ends.get(future.value.partition, 0), future.value.offset + 1
                )
                continue
            if future.is_done:
                if type(future.exception).__name__ in PERMANENT:
                    raise LineRejected(self._rejection(line, future.exception))
                reason = self._access.explain(future.exception)
            unconfirmed.append(line)
        unconfirmed += lines[len(sent) :]
        if unconfirmed:
            self.close()  # records that it still holds must not be sent beside the next attempt
        return unconfirmed, reason

    def _connected(self) -> KafkaProducer:
        """Return the producer, connected if there was none. Raises: as `BrokerAccess.connect`."""
        if self._producer is None:
            self._producer = self._access.connect()
        return self._producer

    def check_topic(self) -> bool:
        """Wait for the broker and the topic, which the broker may create now.

        Returns: False if the sender was stopped first.
        Raises: LineRejected: there is no such topic.
        """
        from kafka.errors import KafkaError, KafkaTimeoutError

        for attempt in range(1_000_000_000):
            try:
                producer = self._connected()
                self._silent_since_s = self._now_s()
                break
            except BrokerUnreachable as error:
                self._report_silence(str(error))
            except (KafkaError, OSError) as error:
                self._report_silence(self._access.explain(error))
            self._back_off(attempt)
            if self._stop.is_set():
                return False
        creation = self._access.topic_creation()
        try:
            partitions = producer.partitions_for(self.topic)
        except KafkaTimeoutError:
            raise LineRejected(
                f"there is no topic {self.topic!r}, and the broker makes none by itself; make it with: "
                f"kqueue topics create {self.topic}{creation.nearest}"
            ) from None
        if creation.is_missing:
            self._tell(creation.created(len(partitions)))
        return True

    def _send(self, producer: KafkaProducer, line: Line) -> Any:
        return producer.send(self.topic, line.value, self._key_of(line, self._host), headers_of(line, self._host))

    def _await(self, futures: Sequence[Any]) -> None:
        """Wait for all futures; after a stop for at most `CONFIRMATION_TIMEOUT_S`."""
        from kafka.errors import KafkaTimeoutError, UnknownError

        began_s = self._now_s()
        stopped_s: float | None = None
        while self._producer is not None and not all(future.is_done for future in futures):
            try:
                self._producer.flush(timeout=FLUSH_S)
            except KafkaTimeoutError:
                pass
            except UnknownError:  # a batch was too large; its halves are in flight
                time.sleep(FLUSH_RETRY_S)
            now_s = self._now_s()
            if now_s - began_s > CONFIRMATION_TIMEOUT_S:
                self._report_silence("what was sent is not confirmed")
            if self._stop.is_set():
                stopped_s = stopped_s or now_s
                if now_s - stopped_s > CONFIRMATION_TIMEOUT_S:
                    return

    def _report_silence(self, reason: str) -> None:
        """Report a silent broker once. Raises: BrokerTimeout: the timeout has passed."""
        now_s = self._now_s()
        if not self._silent:
            self._silent, self._silent_since_s = True, now_s
            if self._timeout_s != 0:
                self._tell(f"waiting for the broker: {reason}")
        if self._timeout_s is not None and now_s - self._silent_since_s >= self._timeout_s:
            raise BrokerTimeout(f"{reason.rstrip('.')}; gave up after {self._timeout_s:g} s (--timeout)")

    def _back_off(self, attempt: int) -> None:
        """Pause before the next attempt, but not beyond the timeout."""
        pause_s = BACKOFF_S[min(attempt, len(BACKOFF_S) - 1)]
        if self._timeout_s is not None:
            pause_s = min(pause_s, max(self._silent_since_s + self._timeout_s - self._now_s(), 0.0))
        self._stop.wait(pause_s)

    def _rejection(self, line: Line, error: BaseException) -> str:
        where = f"byte {line.offset:,} of {line.name}"
        reason = self._access.explain(error)
        return f"the broker will not take what stands at {where}: {reason}. The position stays before it"
