"""Helpers of the client's tests: batches, what is in them, and a server that answers as the
test says.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Self

from kqueue.client import Client, FetchedRecords, TopicPartition
from kqueue.records.batch import iter_batches, iter_records
from kqueue.records.builder import build_batch
from kqueue.records.record import Record
from kqueue.schema import encode
from kqueue.wire.apis import BY_KEY
from kqueue.wire.headers import read_request_header, response_header
from kqueue.wire.messages.api_versions import ApiVersion, ApiVersionsResponse

TIME_MS = 1_700_000_000_000
ORDERS = TopicPartition("orders", 0)
QUICK: dict[str, Any] = {"timeout_ms": 30_000, "missing_topic_ms": 60, "retry_backoff_ms": 2}
"""Options for brokers that are there, and topics that are not."""


def batch(values: Iterable[bytes], base_offset: int = 0, **settings: Any) -> bytes:
    """One batch, its records a second apart."""
    records = [Record(base_offset + at, TIME_MS + at * 1000, None, value, []) for at, value in enumerate(values)]
    return bytes(build_batch(records, **settings))


def values_of(fetched: FetchedRecords, begin: int = 0) -> list[bytes | None]:
    """The values of all whole batches, from an offset on."""
    result = []
    for position, _ in iter_batches(fetched.records):
        result += [record.value for record in iter_records(fetched.records, position) if record.offset >= begin]
    return result


def read_all(client: Client, topic_partition: TopicPartition, offset: int = 0, **how: Any) -> list[bytes | None]:
    """All values from an offset to the end, in as many fetches as it takes."""
    result: list[bytes | None] = []
    while True:
        fetched = client.fetch({topic_partition: offset}, max_wait_ms=0, **how)[topic_partition]
        after = fetched.next_offset
        if after is None:
            return result
        result += values_of(fetched, offset)
        offset = after


Answer = Callable[[int, int, int, bytes], "bytes | None"]


class Impostor:
    """Listens, and answers each request with the bytes that `answer(key, version, correlation,
    body)` gives; None hangs up.

    Its ApiVersions are those of the wire classes, unless `answer` is asked first (`greets`).
    """

    def __init__(self, answer: Answer, *, greets: bool = True) -> None:
        self._answer = answer
        self._greets = greets
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(60)
        self._taken: list[socket.socket] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.bootstrap = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.asked: list[tuple[int, int]] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        for each in self._taken:
            each.close() if each.fileno() < 0 else each.shutdown(socket.SHUT_RDWR)
        self._thread.join(60)
        self._listener.close()

    def _run(self) -> None:
        while True:
            try:
                accepted, _ = self._listener.accept()
            except OSError:
                return
            self._taken.append(accepted)
            with accepted, accepted.makefile("rb") as stream:
                self._serve(accepted, stream)

    def _serve(self, sock: socket.socket, stream: Any) -> None:
        try:
            while size := int.from_bytes(stream.read(4), "big"):
                frame = stream.read(size)
                header, position = read_request_header(memoryview(frame))
                self.asked.append((header.api_key, header.api_version))
                greeted = self._greets and header.api_key == 18
                give = greeting if greeted else self._answer
                answer = give(header.api_key, header.api_version, header.correlation_id, frame[position:])
                if answer is None:
                    return
                sock.sendall(answer)
        except OSError:
            return


def framed(payload: bytes) -> bytes:
    return len(payload).to_bytes(4, "big") + payload


def answer_of(key: int, version: int, correlation: int, response: Any) -> bytes:
    """A whole answer as a broker sends it."""
    return framed(response_header(key, version, correlation) + encode(response, version))


def greeting(key: int, version: int, correlation: int, body: bytes) -> bytes:
    rows = [
        ApiVersion(api_key=api.key, min_version=api.versions[0], max_version=api.versions[1] - api.unstable)
        for api in BY_KEY.values()
    ]
    return answer_of(key, version, correlation, ApiVersionsResponse(api_keys=rows))
