"""A blocking client that returns decoded responses and can pipeline requests."""

from __future__ import annotations

import socket
from types import TracebackType
from typing import Any, Self

from kqueue.records.builder import build_batch
from kqueue.records.record import Record
from kqueue.schema import decode
from kqueue.tests.network.harness import API, request_bytes
from kqueue.wire.headers import read_response_header
from kqueue.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kqueue.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData


class Raw:
    """One connection, as a context manager; operations raise TimeoutError after `timeout_s`."""

    def __init__(self, bootstrap: str, client_id: str = "raw", timeout_s: float = 30) -> None:
        host, port = bootstrap.rsplit(":", 1)
        self.client_id = client_id
        self.sock = socket.create_connection((host, int(port)), timeout=timeout_s)
        self._stream = self.sock.makefile("rb")
        self._asked: list[tuple[str, int]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stream.close()
        self.sock.close()

    def send(self, name: str, version: int, request: Any = None, **fields: Any) -> None:
        api = API[name]
        self.sock.sendall(
            request_bytes(api, version, request or api.request_class(**fields), len(self._asked), self.client_id)
        )
        self._asked.append((name, version))

    def receive(self) -> Any:
        """Return the response to the oldest unanswered request.

        Raises: EOFError: the connection was closed.
        """
        try:
            size = int.from_bytes(self._stream.read(4), "big")
        except ConnectionResetError:
            size = 0
        if not size:
            raise EOFError
        frame = memoryview(self._stream.read(size))
        name, version = self._asked.pop(0)
        api = API[name]
        _, position = read_response_header(frame, api.key, version)
        return decode(api.response_class, version, frame[position:])

    def ask(self, name: str, version: int, request: Any = None, **fields: Any) -> Any:
        self.send(name, version, request, **fields)
        return self.receive()


def produce(*partitions: tuple[str, int], acks: int = -1, value: bytes = b"a") -> ProduceRequest:
    """Return a request with one record per partition, for versions up to 12."""
    batch = bytes(build_batch([Record(0, 1_700_000_000_000, None, value, [])]))
    topics = {topic: [index for name, index in partitions if name == topic] for topic, _ in partitions}
    return ProduceRequest(
        acks=acks,
        timeout_ms=5_000,
        topic_data=[
            TopicProduceData(
                name=topic, partition_data=[PartitionProduceData(index=index, records=batch) for index in indexes]
            )
            for topic, indexes in topics.items()
        ],
    )


def fetch(
    *partitions: tuple[str, int], offset: int = 0, max_wait_ms: int = 5_000, session_id: int = 0, epoch: int = -1
) -> FetchRequest:
    """Return a request for these partitions, for versions up to 12; `epoch` 0 opens a session."""
    topics = {topic: [index for name, index in partitions if name == topic] for topic, _ in partitions}
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        session_id=session_id,
        session_epoch=epoch,
        topics=[
            FetchTopic(
                topic=topic,
                partitions=[
                    FetchPartition(partition=each, fetch_offset=offset, partition_max_bytes=1 << 20) for each in all
                ],
            )
            for topic, all in topics.items()
        ],
    )
