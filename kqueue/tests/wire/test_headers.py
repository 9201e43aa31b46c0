from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.base.errors import MalformedMessage, UnsupportedVersion
from kqueue.tests.tables import for_each
from kqueue.wire.apis import ALL, Api
from kqueue.wire.headers import (
    RequestHeader,
    read_request_header,
    read_response_header,
    request_header,
    request_header_version,
    response_header,
    response_header_version,
)


def header(key: int, version: int, correlation_id: int, client_id: str | None) -> RequestHeader:
    return RequestHeader(api_key=key, api_version=version, correlation_id=correlation_id, client_id=client_id)


@for_each(
    "data, expected",
    [
        ("0000 0003 00000007 0002 6162 ", header(0, 3, 7, "ab")),
        ("0000 0003 00000007 ffff", header(0, 3, 7, None)),
        ("0000 0009 00000007 0002 6162 00", header(0, 9, 7, "ab")),
        ("0012 0004 ffffffff 0000 01 63 02 abcd", header(18, 4, -1, "")),  # an unknown tag is skipped
        ("0012 0005 00000001 0001 78 00", header(18, 5, 1, "x")),  # a version that nobody knows yet
        ("0007 0000 00000001", header(7, 0, 1, None)),  # ControlledShutdown 0 has no client id
    ],
)
def test_request_headers_written_out(data: str, expected: RequestHeader) -> None:
    frame = memoryview(bytes.fromhex(data) + b"body")
    assert read_request_header(frame) == (expected, len(frame) - 4)


@for_each(
    "key, version, expected",
    [(0, 8, "00000005"), (0, 9, "0000000500"), (18, 0, "00000005"), (18, 4, "00000005"), (17, 1, "00000005")],
)
def test_response_headers_written_out(key: int, version: int, expected: str) -> None:
    assert response_header(key, version, 5).hex() == expected


@given(st.sampled_from(ALL), st.data(), st.integers(-(2**31), 2**31 - 1), st.none() | st.text(max_size=10))
def test_headers_are_read_as_they_were_written(
    api: Api, data: st.DataObject, correlation_id: int, client_id: str | None
) -> None:
    version = data.draw(st.integers(*api.versions))
    request = request_header(api.key, version, correlation_id, client_id)
    assert read_request_header(memoryview(request)) == (
        header(api.key, version, correlation_id, client_id),
        len(request),
    )
    response = response_header(api.key, version, correlation_id)
    assert read_response_header(memoryview(response), api.key, version) == (correlation_id, len(response))
    for size in range(len(request)):
        with pytest.raises(MalformedMessage):
            read_request_header(memoryview(request[:size]))
    for size in range(len(response)):
        with pytest.raises(MalformedMessage):
            read_response_header(memoryview(response[:size]), api.key, version)


def test_versions_of_headers() -> None:
    assert [request_header_version(*row) for row in ((7, 0), (0, 8), (0, 9), (18, 3), (17, 1))] == [0, 1, 2, 2, 1]
    assert [response_header_version(*row) for row in ((7, 0), (0, 8), (0, 9), (18, 3), (17, 1))] == [0, 0, 1, 0, 0]


def test_an_unknown_key_is_refused() -> None:
    with pytest.raises(UnsupportedVersion, match="no API has the key 999"):
        read_request_header(memoryview(bytes.fromhex("03e7 0000 00000001 ffff")))
    with pytest.raises(UnsupportedVersion):
        response_header(999, 0, 1)


@for_each("data", ["0000 0003 00000007 fffe", "0000 0003 00000007 0005 6162", "0000"])
def test_malformed_header_is_refused(data: str) -> None:
    with pytest.raises(MalformedMessage, match="expected"):
        read_request_header(memoryview(bytes.fromhex(data)))


def test_a_client_id_that_is_not_utf_8_is_replaced() -> None:
    header, position = read_request_header(memoryview(bytes.fromhex("0000 0003 00000007 0001 ff")))
    assert (header.client_id, position) == ("\ufffd", 11)


@given(st.binary(max_size=40))
def test_any_bytes_are_a_header_or_refused(data: bytes) -> None:
    try:
        decoded, position = read_request_header(memoryview(data))
    except (MalformedMessage, UnsupportedVersion):
        return
    assert position <= len(data)
    assert decoded.api_key == int.from_bytes(data[:2], "big", signed=True)
