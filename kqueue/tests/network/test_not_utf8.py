"""Requests whose strings are not UTF-8, over a connection."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

import pytest

import kqueue
from kqueue.schema import decode
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.headers import read_response_header
from kqueue.wire.messages.metadata import MetadataResponse
from kqueue.wire.messages.offset_commit import OffsetCommitResponse
from kqueue.wire.messages.offset_fetch import OffsetFetchResponse


@pytest.fixture
def connection() -> Iterator[socket.socket]:
    with kqueue.Broker() as broker:
        host, _, port = broker.bootstrap.rpartition(":")
        with socket.create_connection((host, int(port)), 30) as connection:
            yield connection


def call(connection: socket.socket, key: int, version: int, client_id: bytes, body: bytes) -> memoryview:
    """Return the body of the response."""
    payload = struct.pack(">hhih", key, version, 7, len(client_id)) + client_id + body
    connection.sendall(struct.pack(">i", len(payload)) + payload)
    size = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))[0]
    response = memoryview(connection.recv(size, socket.MSG_WAITALL))
    assert len(response) == size
    correlation_id, position = read_response_header(response, key, version)
    assert correlation_id == 7
    return response[position:]


def sized(data: bytes) -> bytes:
    return struct.pack(">h", len(data)) + data


def test_a_client_id_that_is_not_utf_8_is_answered(connection: socket.socket) -> None:
    for key, version, body in ((18, 0, b""), (3, 1, struct.pack(">i", 0)), (16, 0, b"")):
        assert call(connection, key, version, b"caf\xe9", body)


def test_a_topic_that_is_not_utf_8_is_invalid(connection: socket.socket) -> None:
    response = call(connection, 3, 1, b"x", struct.pack(">i", 1) + sized(b"a\xffb"))
    (topic,) = decode(MetadataResponse, 1, response).topics
    assert (topic.name, topic.error_code) == ("a\ufffdb", ErrorCode.INVALID_TOPIC_EXCEPTION)


def test_groups_whose_names_are_replaced_alike_are_one(connection: socket.socket) -> None:
    call(connection, 3, 4, b"x", struct.pack(">i", 1) + sized(b"t") + b"\x01")  # creates the topic
    body = sized(b"g\xfe") + struct.pack(">i", -1) + sized(b"") + struct.pack(">qi", -1, 1)
    body += sized(b"t") + struct.pack(">iiq", 1, 0, 3) + sized(b"meta\xff")
    committed = decode(OffsetCommitResponse, 2, call(connection, 8, 2, b"x", body))
    assert committed.topics[0].partitions[0].error_code == ErrorCode.NONE
    body = sized(b"g\xff") + struct.pack(">i", 1) + sized(b"t") + struct.pack(">ii", 1, 0)
    (topic,) = decode(OffsetFetchResponse, 1, call(connection, 9, 1, b"x", body)).topics
    assert (topic.partitions[0].committed_offset, topic.partitions[0].metadata) == (3, "meta\ufffd")
