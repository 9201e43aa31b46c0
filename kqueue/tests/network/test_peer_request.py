from __future__ import annotations

import pytest

from kqueue.base.errors import UnsupportedVersion
from kqueue.interbroker.errors import PeerIncompatible
from kqueue.network.peer_request import PeerRequest, negotiated_route, route_at
from kqueue.schema import decode, join
from kqueue.wire.apis import BY_KEY
from kqueue.wire.headers import read_request_header
from kqueue.wire.messages.fetch import FetchRequest, ReplicaState
from kqueue.wire.messages.init_producer_id import InitProducerIdRequest

FETCH = BY_KEY[1]
INIT_PRODUCER_ID = BY_KEY[22]


def fetch(**fields: object) -> FetchRequest:
    return FetchRequest(max_wait_ms=5, min_bytes=1, **fields)  # type: ignore[arg-type]


def new_request(message: object) -> tuple[PeerRequest, list[object]]:
    outcomes: list[object] = []
    return PeerRequest(message, outcomes.append, 0), outcomes


@pytest.mark.parametrize(("served", "version"), [((0, 18), 18), ((0, 99), 18), ((4, 12), 12), ((0, 0), 0)])
def test_the_highest_common_version_is_chosen(served: tuple[int, int], version: int) -> None:
    assert negotiated_route(FetchRequest, {1: served}, "broker 1").version == version


def test_a_version_that_is_not_final_is_not_chosen() -> None:
    route = negotiated_route(InitProducerIdRequest, {22: (0, 99)}, "broker 1")
    assert route.version == INIT_PRODUCER_ID.versions[1] - 1


@pytest.mark.parametrize("served", [{}, {1: (19, 20)}])
def test_no_common_version_names_both_sides(served: dict[int, tuple[int, int]]) -> None:
    with pytest.raises(PeerIncompatible, match=r"broker 1: Fetch is needed in versions 0 to 18, and that broker"):
        negotiated_route(FetchRequest, served, "broker 1")


def test_the_encoded_request_can_be_read() -> None:
    request, _ = new_request(fetch(replica_state=ReplicaState(replica_id=3, replica_epoch=9)))
    request.route = route_at(FETCH, 18)
    data = memoryview(join(request.encoded(77, "broker-3-fetch-0")))
    assert int.from_bytes(data[:4], "big") == len(data) - 4
    header, position = read_request_header(data[4:])
    assert (header.api_key, header.api_version, header.correlation_id) == (1, 18, 77)
    assert header.client_id == "broker-3-fetch-0"
    assert decode(FetchRequest, 18, data[4 + position :]).replica_state.replica_epoch == 9


def test_a_value_that_the_version_can_not_carry_is_refused() -> None:
    request, _ = new_request(fetch(replica_state=ReplicaState(replica_id=3, replica_epoch=9)))
    request.route = route_at(FETCH, 12)
    with pytest.raises(UnsupportedVersion):
        request.encoded(1, "x")


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
