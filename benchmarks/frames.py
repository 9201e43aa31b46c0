"""Requests that are encoded once and sent many times, so a load costs the sender little; and one
plain connection.
"""

from __future__ import annotations

import itertools
import socket
import ssl
import struct
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from kqueue.client import LATEST, Client, NewTopic, TopicPartition
from kqueue.records.builder import build_batch
from kqueue.records.record import Record
from kqueue.schema import decode, encode
from kqueue.wire.headers import request_header
from kqueue.wire.messages import api_versions, fetch, metadata, produce

CLIENT_ID = "benchmarks"
CALL_TIMEOUT_S = 60
_numbers = itertools.count(1)

# Versions that are not flexible and that both kqueue and Kafka 4 serve.
PRODUCE, FETCH, METADATA, API_VERSIONS = 7, 11, 8, 2

# Bytes of a Fetch 11 response of one partition before its records, without the topic's name:
#   size 4, correlation id 4, throttle 4, error 2, session 4, topics 4, name 2 + n, partitions 4,
#   index 4, error 2, high watermark 8, last stable 8, log start 8, aborted 4, read replica 4,
#   records size 4
_FETCH_HEAD_BYTES = 4 + 4 + 4 + 2 + 4 + 4 + 2 + 4 + 4 + 2 + 8 + 8 + 8 + 4 + 4 + 4


class Connection:
    """A blocking connection: `call` for single requests, `socket` for loads. `tls`: encrypts it."""

    def __init__(self, bootstrap: str, tls: ssl.SSLContext | None = None) -> None:
        host, _, port = bootstrap.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=CALL_TIMEOUT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_hostname=host)

    def __enter__(self) -> Connection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def call(self, api_key: int, version: int, request: Any, answer: type[Any]) -> Any:
        self.socket.sendall(frame(api_key, version, request))
        reply = self.read_reply()
        return decode(answer, version, memoryview(reply)[4:])

    def read_reply(self) -> bytes:
        """Return the next response without its size: correlation id and body."""
        return self.read_exactly(struct.unpack(">i", self.read_exactly(4))[0])

    def read_exactly(self, size: int) -> bytes:
        buf = bytearray(size)
        view = memoryview(buf)
        while view:
            got = self.socket.recv_into(view)
            if not got:
                raise ConnectionError("the broker closed the connection")
            view = view[got:]
        return bytes(buf)


def frame(api_key: int, version: int, request: Any) -> bytes:
    """Encode a request with its size; the correlation id is always 1."""
    body = request_header(api_key, version, 1, CLIENT_ID) + encode(request, version)
    return struct.pack(">i", len(body)) + body


def batch(count: int, value: bytes) -> bytes:
    now_ms = int(time.time() * 1000)
    return bytes(build_batch([Record(index, now_ms, None, value, (), -1) for index in range(count)]))


def produce_frame(topic: str, data: bytes, acks: int = 1, partition: int = 0) -> bytes:
    one = produce.PartitionProduceData(index=partition, records=memoryview(data))
    request = produce.ProduceRequest(
        acks=acks, timeout_ms=30_000, topic_data=[produce.TopicProduceData(name=topic, partition_data=[one])]
    )
    return frame(0, PRODUCE, request)


def fetch_frame(topic: str, offset: int, *, max_bytes: int, max_wait_ms: int = 500) -> bytes:
    partition = fetch.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=max_bytes)
    request = fetch.FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=max_bytes,
        session_epoch=-1,
        topics=[fetch.FetchTopic(topic=topic, partitions=[partition])],
    )
    return frame(1, FETCH, request)


def fetch_head_bytes(topic: str) -> int:
    """Bytes of an answer to `fetch_frame` before its records begin; the last four of them are the
    records' size.
    """
    return _FETCH_HEAD_BYTES + len(topic)


def asking(bootstrap: str) -> Client:
    """Return a client for single requests beside the loads."""
    return Client(bootstrap, client_id=CLIENT_ID, timeout_ms=CALL_TIMEOUT_S * 1000)


def create_topic(bootstrap: str, stem: str, settings: Mapping[str, str] | None = None) -> str:
    """Create a topic of one partition with these settings; return its name."""
    name = f"benchmark-{stem}-{time.time_ns()}-{next(_numbers)}"
    with asking(bootstrap) as client:
        client.create_topics([NewTopic(name, 1, 1, settings or {})])
    return name


def delete_topic(bootstrap: str, name: str) -> None:
    with asking(bootstrap) as client:
        client.delete_topics([name])


def end_offset(bootstrap: str, topic: str) -> int:
    place = TopicPartition(topic, 0)
    with asking(bootstrap) as client:
        return client.offsets({place: LATEST})[place].offset or 0


def settled_end(bootstrap: str, topic: str, wanted: int) -> int:
    """The end of the topic once it has reached `wanted`; another broker may acknowledge what
    readers do not see yet.
    """
    deadline = time.monotonic() + CALL_TIMEOUT_S
    while (end := end_offset(bootstrap, topic)) < wanted and time.monotonic() < deadline:
        time.sleep(0.01)
    return end


def greet(connection: Connection) -> None:
    """Return the first requests of every client: ApiVersions and Metadata."""
    connection.call(18, API_VERSIONS, api_versions.ApiVersionsRequest(), api_versions.ApiVersionsResponse)
    connection.call(3, METADATA, metadata.MetadataRequest(topics=[]), metadata.MetadataResponse)
