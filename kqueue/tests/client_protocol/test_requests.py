"""Requests and their responses as frames."""

from __future__ import annotations

import pytest

from kqueue.base.errors import MalformedMessage, UnsupportedVersion
from kqueue.client_protocol.requests import (
    CORRELATION_MAX,
    codec_of,
    decode_response,
    encode_request,
    next_correlation_id,
)
from kqueue.schema import decode, encode, join
from kqueue.tests.tables import for_each
from kqueue.wire.apis import BY_MODULE
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.frame import LENGTH_SIZE
from kqueue.wire.headers import read_request_header, response_header
from kqueue.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from kqueue.wire.messages.fetch import FetchRequest, ReplicaState
from kqueue.wire.messages.list_groups import ListedGroup, ListGroupsResponse

FETCH, LIST_GROUPS, API_VERSIONS = BY_MODULE["fetch"], BY_MODULE["list_groups"], BY_MODULE["api_versions"]
REPLICA_FETCH = FetchRequest(max_wait_ms=5, min_bytes=1, replica_state=ReplicaState(replica_id=3, replica_epoch=9))


def frame(key: int, version: int, response: object, correlation_id: int = 7) -> memoryview:
    """Return a response without its length."""
    return memoryview(response_header(key, version, correlation_id) + bytes(encode(response, version)))


def test_the_frame_of_a_request_can_be_read() -> None:
    data = memoryview(join(encode_request(codec_of(FETCH, 18), REPLICA_FETCH, 77, "broker-3-fetch-0")))
    assert int.from_bytes(data[:LENGTH_SIZE], "big") == len(data) - LENGTH_SIZE
    header, position = read_request_header(data[LENGTH_SIZE:])
    assert (header.api_key, header.api_version, header.correlation_id) == (1, 18, 77)
    assert header.client_id == "broker-3-fetch-0"
    assert decode(FetchRequest, 18, data[LENGTH_SIZE + position :]).replica_state.replica_epoch == 9


def test_a_value_that_the_version_can_not_carry_is_refused() -> None:
    with pytest.raises(UnsupportedVersion):
        encode_request(codec_of(FETCH, 12), REPLICA_FETCH, 1, "x")


def test_correlation_ids_begin_again_before_they_are_negative() -> None:
    assert [next_correlation_id(last) for last in (0, 1, CORRELATION_MAX - 1, CORRELATION_MAX)] == [
        1,
        2,
        CORRELATION_MAX,
        1,
    ]


def test_the_response_to_the_request_is_read() -> None:
    response = ListGroupsResponse(groups=[ListedGroup(group_id="g")])
    decoded = decode_response(codec_of(LIST_GROUPS, 4), frame(16, 4, response), 7, items_max=10)
    assert [group.group_id for group in decoded.groups] == ["g"]


@for_each(
    "correlation_id, more, items_max, words",
    [
        (8, b"", 10, "ListGroups: expected the response to request 8, found one to request 7"),
        (7, b"\0", 10, "ListGroups: expected the end at byte .*, found 1 bytes more"),
        (7, b"", 1, "2 items at byte .* more than the message may hold"),
    ],
)
def test_what_is_not_the_response_is_refused(correlation_id: int, more: bytes, items_max: int, words: str) -> None:
    response = ListGroupsResponse(groups=[ListedGroup(group_id="g"), ListedGroup(group_id="h")])
    data = memoryview(bytes(frame(16, 4, response)) + more)
    with pytest.raises(MalformedMessage, match=words):
        decode_response(codec_of(LIST_GROUPS, 4), data, correlation_id, items_max)


def test_a_broker_that_does_not_know_the_version_of_apiversions_answers_in_the_first_one() -> None:
    rows = [ApiVersion(api_key=18, min_version=0, max_version=2)]
    refusal = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=rows)
    response = decode_response(codec_of(API_VERSIONS, 4), frame(18, 0, refusal), 7, items_max=10)
    assert [row.max_version for row in response.api_keys] == [2]
