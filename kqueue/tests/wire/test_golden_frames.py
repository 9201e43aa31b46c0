"""Frames that stock clients exchanged with Apache Kafka 4.3: each is read, and written again to the
identical bytes.
"""

from __future__ import annotations

import json
import lzma
from typing import NamedTuple

from kqueue.schema import encode, reader
from kqueue.tests.golden import FOLDER
from kqueue.tests.tables import for_each
from kqueue.wire.apis import ALL, API_VERSIONS, BY_KEY
from kqueue.wire.headers import read_request_header, read_response_header, request_header, response_header


class Exchange(NamedTuple):
    """One request and its response as they went over the wire, without their lengths."""

    key: int
    version: int
    request: bytes
    response: bytes


def _exchanges() -> list[Exchange]:
    lines = lzma.decompress((FOLDER / "frames.jsonl.xz").read_bytes()).splitlines()
    rows = map(json.loads, lines)
    return [
        Exchange(row["api"], row["version"], bytes.fromhex(row["request"]), bytes.fromhex(row["response"]))
        for row in rows
    ]


EXCHANGES = _exchanges()
KNOWN = [each for each in EXCHANGES if each.key in BY_KEY and each.version <= BY_KEY[each.key].versions[1]]


def test_all_requests_are_known() -> None:
    unknown = {(each.key, each.version) for each in EXCHANGES} - {(each.key, each.version) for each in KNOWN}
    assert {key for key, _ in unknown} == {API_VERSIONS}
    assert {version for key, version in unknown if key == API_VERSIONS} == {5}
    assert len(KNOWN) > 500


@for_each("key", sorted({each.key for each in KNOWN}))
def test_requests_are_read_and_written_to_the_same_bytes(key: int) -> None:
    for each in KNOWN:
        if each.key != key:
            continue
        header, position = read_request_header(memoryview(each.request))
        assert (header.api_key, header.api_version) == (each.key, each.version)
        request, end = reader(BY_KEY[key].request_class, each.version)(memoryview(each.request), position)
        assert end == len(each.request)
        written = request_header(each.key, each.version, header.correlation_id, header.client_id)
        assert written + encode(request, each.version) == each.request


@for_each("key", sorted({each.key for each in KNOWN}))
def test_responses_are_read_and_written_to_the_same_bytes(key: int) -> None:
    for each in KNOWN:
        if each.key != key:
            continue
        correlation_id, position = read_response_header(memoryview(each.response), key, each.version)
        assert correlation_id == read_request_header(memoryview(each.request))[0].correlation_id
        response, end = reader(BY_KEY[key].response_class, each.version)(memoryview(each.response), position)
        assert end == len(each.response)
        assert response_header(key, each.version, correlation_id) + encode(response, each.version) == each.response


def test_a_newer_api_versions_request_still_has_a_header_that_can_be_read() -> None:
    newer = [each for each in EXCHANGES if each.key == API_VERSIONS and each.version == 5]
    assert newer
    for each in newer:
        header, _ = read_request_header(memoryview(each.request))
        assert (header.api_key, header.api_version) == (API_VERSIONS, 5)
        correlation_id, position = read_response_header(memoryview(each.response), API_VERSIONS, 5)
        assert correlation_id == header.correlation_id
        response, end = reader(BY_KEY[API_VERSIONS].response_class, 0)(memoryview(each.response), position)
        assert end == len(each.response)
        assert [(row.api_key, row.max_version) for row in response.api_keys] == [(API_VERSIONS, 4)]
        assert response.error_code == 35


def test_the_frames_cover_most_of_the_apis() -> None:
    assert len({each.key for each in KNOWN}) >= len(ALL) * 2 // 3
