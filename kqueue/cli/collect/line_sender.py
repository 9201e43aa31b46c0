"""Lines become records of a topic: each confirmed before its position moves, through a broker's
absence too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kqueue.cli.collect.tailed_file import Line
from kqueue.cli.connect import FLUSH_AGAIN_S, explain, find_broker
from kqueue.cli.topic_creation import TopicCreationNotice

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
DELIVERY_TIMEOUT_MS = (
    24 * 60 * 60 * 1000
)  # so long the client tries again by itself, in a way that no broker takes a record twice
RECONNECT_MS_MAX = 5_000
BACKOFF_S = (0.5, 1.0, 2.0, 5.0, 10.0)
CONFIRMATION_TIMEOUT_S = (
    5.0  # before somebody is told that the broker is silent; and so long it may still answer after Ctrl-C
)
TURN_S = 0.2
PERMANENT = (
    "MessageSizeTooLargeError",
    "RecordListTooLargeError",
    "InvalidRecordError",
    "InvalidTimestampError",
    "InvalidTopicError",
    "TopicAuthorizationFailedError",
)


def as_bytes(text: str) -> bytes:
    """UTF-8, and names of files that are none as the bytes that they are."""
    return text.encode(errors="surrogateescape")


def headers_of(line: Line, host: str) -> list[tuple[str, bytes]]:
    """``host``, ``file``, ``source`` and ``offset``; ``part`` where a line comes in parts."""
    headers = [
        ("host", as_bytes(host)),
        ("file", as_bytes(line.name)),
        ("source", line.source.encode()),
        ("offset", b"%d" % line.offset),
    ]
    return headers if line.part is None else [*headers, ("part", b"%d" % line.part)]


class LineRejected(Exception):
    """The broker will never take a record; the message is a sentence."""


class BrokerTimeout(LineRejected):
    """The broker was silent for longer than it may be."""


class LineSender:
    """Sends lines to a topic and waits until they are confirmed, however long that takes.

    Args: host, key: what the records bear (`KEYS`). options: of the client. stopped: whether to
    give up as soon as possible. wait: sleeps for so many seconds, or until it is stopped. tell:
    takes a sentence for people. timeout_s: how long the broker may be silent before `BrokerTimeout` is
    raised; None: for ever.
    """

    def __init__(
        self,
        topic: str,
        host: str,
        key: str,
        options: dict[str, Any],
        *,
        stopped: Callable[[], bool],
        wait: Callable[[float], object],
        tell: Callable[[str], None],
        now_s: Callable[[], float] = time.monotonic,
        timeout_s: float | None = None,
    ) -> None:
        self.topic = topic
        self.sent = 0
        self.ends: dict[int, int] = {}
        """By partition, the offset behind the last record of ours that was confirmed."""
        self._host = host
        self._key_of = KEYS[key]
        self._options = options
        self._stopped = stopped
        self._wait = wait
        self._tell = tell
        self._now_s = now_s
        self._producer: KafkaProducer | None = None
        self._silent = False
        self._silent_since_s = 0.0
        self._timeout_s = timeout_s

    def close(self) -> None:
        """Let go of the connection; nothing is waited for."""
        producer, self._producer = self._producer, None
        if producer is not None:
            from kafka.errors import KafkaTimeoutError

            try:
                producer.close(timeout=0)
            except (
                KafkaTimeoutError
            ):  # it will not close while something is on its way; there is no other way to take that back
                producer._sender.force_close()

    def send(self, lines: Sequence[Line]) -> bool:
        """Send, and return True once all are confirmed; False if it was stopped before. Raises
        LineRejected: a record will never be taken.

        A record is sent once, unless it is not confirmed for a day, or the broker forgets what it
        has had from us.
        """
        left: Sequence[Line] = lines
        for attempt in range(1_000_000_000):
            left, reason = self._attempt(left)
            if not left:
                break
            if not self._stopped():
                self._tell_silence(reason)
                self._rest(attempt)
            if self._stopped():
                return False
        if self._silent:
            self._silent = False
            self._tell("the broker answers again")
        self.sent += len(lines)
        return True

    def _attempt(self, lines: Sequence[Line]) -> tuple[list[Line], str]:
        """Send once; returns the lines that are not confirmed, and why not."""
        from kafka.errors import KafkaError, KafkaTimeoutError

        sent: list[tuple[Line, Any]] = []
        reason = ""
        try:
            producer = self._connected()
            for line in lines:
                sent.append((line, self._send(producer, line)))  # noqa: PERF401  what went before an error must be in it
        except (KafkaTimeoutError, OSError, click.ClickException) as error:
            reason = error.message if isinstance(error, click.ClickException) else explain(error)
        except KafkaError as error:
            raise LineRejected(self._refusal(lines[len(sent)], error)) from None
        self._await([future for _, future in sent])
        left = []
        for line, future in sent:
            if future.succeeded():
                self.ends[future.value.partition] = max(
                    self.ends.get(future.value.partition, 0), future.value.offset + 1
                )
                continue
            if future.is_done:
                if type(future.exception).__name__ in PERMANENT:
                    raise LineRejected(self._refusal(line, future.exception))
                reason = explain(future.exception)
            left.append(line)
        left += lines[len(sent) :]
        if left:
            self.close()  # what it may still hold must not be sent beside what is sent again
        return left, reason

    def _connected(self) -> KafkaProducer:
        """The client, made if there is none. Raises ClickException, KafkaError, LineRejected: there is
        no such topic.
        """
        if self._producer is None:
            from kafka import KafkaProducer

            find_broker(",".join(self._options["bootstrap_servers"]))
            self._producer = KafkaProducer(**self._options)
        return self._producer

    def check_topic(self) -> bool:
        """Wait for the broker and for the topic, which it may make now; False if it was stopped
        before. Raises LineRejected: there is none.
        """
        from kafka.errors import KafkaError, KafkaTimeoutError

        for attempt in range(1_000_000_000):
            try:
                producer = self._connected()
                self._silent_since_s = self._now_s()
                break
            except (KafkaError, OSError, click.ClickException) as error:
                self._tell_silence(error.message if isinstance(error, click.ClickException) else explain(error))
            self._rest(attempt)
            if self._stopped():
                return False
        watch = TopicCreationNotice(",".join(self._options["bootstrap_servers"]), self.topic)
        try:
            partitions = producer.partitions_for(self.topic)
        except KafkaTimeoutError:
            raise LineRejected(
                f"there is no topic {self.topic!r}, and the broker makes none by itself; make it with: "
                f"kqueue topics create {self.topic}{watch.nearest}"
            ) from None
        if watch.is_missing:
            self._tell(watch.created(len(partitions)))
        return True

    def _send(self, producer: KafkaProducer, line: Line) -> Any:
        return producer.send(self.topic, line.value, self._key_of(line, self._host), headers_of(line, self._host))

    def _await(self, futures: Sequence[Any]) -> None:
        """Until all are done; after a stop no longer than `CONFIRMATION_TIMEOUT_S`."""
        from kafka.errors import KafkaTimeoutError, UnknownError

        began_s = self._now_s()
        stopped_s: float | None = None
        while self._producer is not None and not all(future.is_done for future in futures):
            try:
                self._producer.flush(timeout=TURN_S)
            except KafkaTimeoutError:
                pass
            except UnknownError:  # a batch was too large, and its halves are on their way
                time.sleep(FLUSH_AGAIN_S)
            now_s = self._now_s()
            if now_s - began_s > CONFIRMATION_TIMEOUT_S:
                self._tell_silence("what was sent is not confirmed")
            if self._stopped():
                stopped_s = stopped_s or now_s
                if now_s - stopped_s > CONFIRMATION_TIMEOUT_S:
                    return

    def _tell_silence(self, reason: str) -> None:
        """Say once that the broker is silent. Raises BrokerTimeout: it has been for too long."""
        now_s = self._now_s()
        if not self._silent:
            self._silent, self._silent_since_s = True, now_s
            if self._timeout_s != 0:
                self._tell(f"waiting for the broker: {reason}")
        if self._timeout_s is not None and now_s - self._silent_since_s >= self._timeout_s:
            raise BrokerTimeout(f"{reason.rstrip('.')}; gave up after {self._timeout_s:g} s (--timeout)")

    def _rest(self, attempt: int) -> None:
        """Wait before the next attempt, but not beyond the timeout."""
        rest_s = BACKOFF_S[min(attempt, len(BACKOFF_S) - 1)]
        if self._timeout_s is not None:
            rest_s = min(rest_s, max(self._silent_since_s + self._timeout_s - self._now_s(), 0.0))
        self._wait(rest_s)

    def _refusal(self, line: Line, error: BaseException) -> str:
        where = f"byte {line.offset:,} of {line.name}"
        return f"the broker will not take what stands at {where}: {explain(error)}. The position stays before it"
