from __future__ import annotations

import pytest

from kqueue.client_protocol.requests import codec_of
from kqueue.interbroker.errors import PeerIncompatible
from kqueue.network.peer_request import PeerRequest, negotiated_codec
from kqueue.schema import join
from kqueue.wire.apis import BY_KEY
from kqueue.wire.headers import read_request_header
from kqueue.wire.messages.fetch import FetchRequest

FETCH = BY_KEY[1]
INIT_PRODUCER_ID = BY_KEY[22]


def fetch(**fields: object) -> FetchRequest:
    return FetchRequest(max_wait_ms=5, min_bytes=1, **fields)  # type: ignore[arg-type]


def new_request(message: object) -> tuple[PeerRequest, list[object]]:
    outcomes: list[object] = []
    return PeerRequest(message, outcomes.append, 0), outcomes


def test_the_codec_has_the_highest_common_version() -> None:
    assert negotiated_codec(FetchRequest, {1: (4, 12)}, "broker 1").version == 12


def test_no_common_version_names_the_broker() -> None:
    with pytest.raises(PeerIncompatible, match=r"broker 1: Fetch is needed in versions 0 to 18, but this broker"):
        negotiated_codec(FetchRequest, {1: (19, 20)}, "broker 1")


def test_an_encoded_request_keeps_no_message() -> None:
    request, _ = new_request(fetch())
    request.codec = codec_of(FETCH, 18)
    data = memoryview(join(request.encoded(77, "broker-3-fetch-0")))
    header, _ = read_request_header(data[4:])
    assert (header.correlation_id, request.correlation_id) == (77, 77)
    assert header.client_id == "broker-3-fetch-0"
    assert request.request is None


def test_finish_calls_once_and_cancel_never() -> None:
    request, outcomes = new_request(fetch())
    request.finish(1)
    request.finish(2)
    assert outcomes == [1]
    assert not request.pending
    request, outcomes = new_request(fetch())
    request.cancel()
    request.finish(1)
    assert not outcomes
