"""The table of version profiles against Kafka itself: what a node advertises and accepts."""

from __future__ import annotations

import socket

from compat_tests.kafka import jvm
from compat_tests.kafka.node import Kafka
from kqueue.api import version_profiles
from kqueue.schema import decode, encode
from kqueue.wire.apis import API_VERSIONS, BY_KEY
from kqueue.wire.headers import read_response_header, request_header
from kqueue.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kqueue.wire.messages.produce import ProduceRequest

VERSION = ".".join(jvm.KAFKA_VERSION.split(".")[:2])
NAMED = ApiVersionsRequest(client_software_name="t", client_software_version="1")
WAIT_S = 20


def exchange(bootstrap: str, request: bytes) -> bytes:
    """The answer to one request; nothing where the connection is closed."""
    host, port = bootstrap.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=WAIT_S) as sock, sock.makefile("rb") as stream:
        sock.sendall(len(request).to_bytes(4, "big") + request)
        return stream.read(int.from_bytes(stream.read(4), "big"))


def api_versions(bootstrap: str, version: int) -> ApiVersionsResponse:
    """Asked at any version; one that is too new is answered at version 0."""
    body = encode(NAMED, min(version, 4))
    frame = memoryview(exchange(bootstrap, request_header(API_VERSIONS, version, 1, "t") + body))
    read_as = min(version, 4) if version <= 4 else 0
    _, position = read_response_header(frame, API_VERSIONS, read_as)
    return decode(ApiVersionsResponse, read_as, frame[position:])


def test_kafka_serves_what_the_table_says(kafka: Kafka) -> None:
    column = version_profiles.VERSIONS.index(VERSION)
    known = {name: versions for name, row in version_profiles.KAFKA.items() if (versions := row[column]) is not None}
    with kafka:
        answers = [api_versions(kafka.bootstrap, version) for version in range(5)]
        for answer in answers:
            assert answer.error_code == 0
            assert [(row.min_version, row.max_version) for row in answer.api_keys] == list(known.values())
            named = [(BY_KEY[row.api_key].name, row.min_version) for row in answer.api_keys if row.api_key in BY_KEY]
            assert named == [
                (name, low) for name, (low, _) in known.items() if name in {api.name for api in BY_KEY.values()}
            ]
        refused = api_versions(kafka.bootstrap, 5)
        assert refused.error_code == 35
        assert [(row.api_key, row.min_version, row.max_version) for row in refused.api_keys] == [
            (API_VERSIONS, *known["ApiVersions"])
        ]
        for version in range(5):
            request = request_header(0, version, 1, "t") + encode(ProduceRequest(acks=1, timeout_ms=1000), version)
            assert bool(exchange(kafka.bootstrap, request)) is (
                version >= version_profiles.ACCEPTED_FROM[VERSION, "Produce"]
            )
