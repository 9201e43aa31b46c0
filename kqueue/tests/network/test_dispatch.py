from __future__ import annotations

import gc
import logging
import weakref
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.api.handler_table import ApiHandler, top_level_error
from kqueue.base.clock import SystemClock
from kqueue.base.errors import MalformedMessage, StorageFailed, UnsupportedVersion
from kqueue.base.timers import Timers
from kqueue.broker.purgatory import DelayedOperation, Purgatory
from kqueue.network.client_log import ClientLog
from kqueue.network.dispatch import Dispatcher
from kqueue.network.responses import DeferredResponse
from kqueue.schema import join
from kqueue.security.principals import ANONYMOUS
from kqueue.tests.network.harness import API, request_bytes
from kqueue.tests.tables import for_each
from kqueue.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


class Caller:
    """A connection that only records the calls it receives."""

    def __init__(self) -> None:
        self.address = "10.0.0.1:5"
        self.client_host = "/10.0.0.1"
        self.listener = "INSIDE"
        self.principal = ANONYMOUS
        self.call = None
        self.answers = 0
        self.cut: list[str] = []

    def response_ready(self) -> None:
        self.answers += 1

    def cut_off(self, reason: str) -> None:
        self.cut.append(reason)

    def throttle(self, ms: int) -> None:
        raise AssertionError("no handler here throttles")


class Desk:
    def __init__(self, handle: Any, api: str = "Heartbeat") -> None:
        self.purgatory = Purgatory(Timers(), SystemClock())
        served = ApiHandler(API[api], (0, 4), handle, top_level_error(API[api]))

        def lookup(api_key: int, version: int) -> ApiHandler:
            if api_key != API[api].key or not 0 <= version <= 4:
                raise UnsupportedVersion(f"nobody serves {api_key}")
            return served

        client_log = ClientLog(logging.getLogger("kqueue.server"), SystemClock())
        self.dispatcher = Dispatcher("the broker", self.purgatory, client_log, lookup)  # type: ignore[arg-type]
        self.caller = Caller()

    def start(self, version: int = 4, client_id: str = "me", **fields: Any) -> Any:
        frame = bytearray(request_bytes(API["Heartbeat"], version, HeartbeatRequest(**fields), 5, client_id)[4:])
        return self.dispatcher.start(memoryview(frame), self.caller)


def test_response_is_length_header_and_body() -> None:
    desk = Desk(lambda request, call: HeartbeatResponse(error_code=3))
    assert join(desk.start(version=0)) == b"\0\0\0\x06" + b"\0\0\0\5" + b"\0\3"
    assert join(desk.start(version=4)) == b"\0\0\0\x0c" + b"\0\0\0\5\0" + b"\0\0\0\0" + b"\0\3" + b"\0"


def test_requests_of_a_client_share_a_context_until_it_changes() -> None:
    calls = []
    desk = Desk(lambda request, call: calls.append(call) or HeartbeatResponse())
    for version, client_id in [(4, "me"), (4, "me"), (3, "me"), (3, "you")]:
        desk.start(version, client_id)
    assert calls[0] is calls[1]
    assert len({id(call) for call in calls}) == 3
    assert [(call.api_version, call.client_id) for call in calls] == [(4, "me"), (4, "me"), (3, "me"), (3, "you")]
    assert {(call.broker, call.client_host, call.listener, call.connection) for call in calls} == {
        ("the broker", "/10.0.0.1", "INSIDE", desk.caller)
    }


def test_long_client_ids_are_not_kept() -> None:
    calls = list[Any]()
    desk = Desk(lambda request, call: calls.append(call))
    desk.start(client_id="x" * 256)
    kept = desk.caller.call
    assert kept is calls[0]
    desk.start(client_id="y" * 257)
    assert calls[1].client_id == "y" * 257
    assert desk.caller.call is kept


def test_handler_without_a_response_returns_none() -> None:
    assert Desk(lambda request, call: None).start() is None


def test_deferred_response_is_sent_later() -> None:
    desk = Desk(lambda request, call: DelayedOperation(("k",), None, lambda expired: HeartbeatResponse(error_code=9)))
    later = desk.start(version=0)
    assert isinstance(later, DeferredResponse)
    assert later.chunks is None
    desk.purgatory.wake("k")
    desk.purgatory.run_ready()
    assert desk.caller.answers == 1
    assert join(later.chunks or []) == b"\0\0\0\x06\0\0\0\5\0\x09"


def test_cancelled_deferred_response_is_never_sent() -> None:
    desk = Desk(lambda request, call: DelayedOperation(("k",), None, lambda expired: HeartbeatResponse()))
    desk.start().cancel()
    desk.purgatory.wake("k")
    desk.purgatory.run_ready()
    assert desk.caller.answers == 0
    assert len(desk.purgatory) == 0


@for_each("deadline_ms", [None, 1e18])
def test_only_a_deferred_response_with_a_deadline_expires(deadline_ms: float | None) -> None:
    desk = Desk(
        lambda request, call: DelayedOperation(
            ("k",), deadline_ms, lambda expired: HeartbeatResponse(error_code=7 if expired else 0)
        )
    )
    later = desk.start(version=0)
    later.expire()
    later.expire()
    assert desk.caller.answers == (0 if deadline_ms is None else 1)
    if deadline_ms is not None:
        assert join(later.chunks).endswith(b"\0\7")


def test_failed_expiry_returns_an_error_response() -> None:
    def fail(expired: bool) -> HeartbeatResponse:
        raise UnsupportedVersion("no")

    desk = Desk(lambda request, call: DelayedOperation(("k",), 1e18, fail))
    later = desk.start(version=0)
    later.expire()
    assert join(later.chunks).endswith(b"\0\x23")


def test_disk_error_is_logged_in_one_line_without_a_traceback(caplog: pytest.LogCaptureFixture) -> None:
    def fail(request: object, call: object) -> HeartbeatResponse:
        raise StorageFailed("can't write to log: ENOSPC")

    assert join(Desk(fail).start(version=0)).endswith(b"\0\x38")
    [record] = caplog.records
    assert record.getMessage() == "Heartbeat of 10.0.0.1:5 failed: can't write to log: ENOSPC"
    assert record.exc_info is None


def test_unencodable_response_becomes_an_error_response(caplog: pytest.LogCaptureFixture) -> None:
    desk = Desk(lambda request, call: HeartbeatResponse(error_code="no number"))
    answer = join(desk.start(version=0))
    assert answer[:8] == b"\0\0\0\x06\0\0\0\5"
    assert int.from_bytes(answer[8:], "big", signed=True) != 0


def test_unencodable_deferred_response_closes_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk(lambda request, call: DelayedOperation(("k",), None, lambda expired: object()))
    monkeypatch.setattr(ApiHandler, "error_response", lambda *arguments: object())
    desk.start()
    desk.purgatory.wake("k")
    desk.purgatory.run_ready()
    assert desk.caller.answers == 0
    [reason] = desk.caller.cut
    assert "Heartbeat could not be answered" in reason


def test_invalid_versions_are_not_cached() -> None:
    desk = Desk(lambda request, call: HeartbeatResponse())
    for version in range(5, 50):
        with pytest.raises(UnsupportedVersion):
            desk.dispatcher.start(memoryview(b"\0\x0c" + version.to_bytes(2, "big") + b"\0\0\0\5\xff\xff"), desk.caller)
    assert desk.dispatcher._routes == {}


@given(st.binary(max_size=60))
def test_arbitrary_bytes_get_a_response_or_an_error(data: bytes) -> None:
    desk = Desk(lambda request, call: HeartbeatResponse())
    for frame in (
        data,
        b"\0\x0c\0\4" + data,
        request_bytes(API["Heartbeat"], 4, HeartbeatRequest(group_id="g"))[4:] + data,
    ):
        try:
            answer = desk.dispatcher.start(memoryview(bytearray(frame)), desk.caller)
        except (MalformedMessage, UnsupportedVersion):
            continue
        assert isinstance(answer, list)


def test_every_truncated_request_is_refused() -> None:
    desk = Desk(lambda request, call: HeartbeatResponse())
    frame = request_bytes(API["Heartbeat"], 4, HeartbeatRequest(group_id="g", member_id="m", group_instance_id="i"))[4:]
    for cut in range(len(frame)):
        with pytest.raises(MalformedMessage):
            desk.dispatcher.start(memoryview(bytearray(frame[:cut])), desk.caller)
    assert isinstance(desk.dispatcher.start(memoryview(bytearray(frame)), desk.caller), list)


def test_large_request_without_records_is_refused_before_decoding() -> None:
    desk = Desk(lambda request, call: HeartbeatResponse())
    frame = request_bytes(API["Heartbeat"], 4, HeartbeatRequest(group_id="g" * 300))[4:]
    desk.dispatcher._plain_bytes_max = len(frame)
    assert isinstance(desk.dispatcher.start(memoryview(bytearray(frame)), desk.caller), list)
    desk.dispatcher._plain_bytes_max -= 1
    with pytest.raises(MalformedMessage, match=r"kqueue\.request\.max\.bytes"):
        desk.dispatcher.start(memoryview(bytearray(frame)), desk.caller)
    produce = Desk(lambda request, call: API["Produce"].response_class(), "Produce")
    produce.dispatcher._plain_bytes_max = 1
    frame = request_bytes(API["Produce"], 4, API["Produce"].request_class(acks=1))[4:]
    assert isinstance(produce.dispatcher.start(memoryview(bytearray(frame)), produce.caller), list)


def test_file_regions_stay_separate_between_joined_bytes() -> None:
    from kqueue.storage import MemoryStorage
    from kqueue.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData

    file = MemoryStorage().open("log", create=True)
    file.append(b"0123456789")
    regions = [file.region(0, 4), file.region(4, 6)]
    partitions = [PartitionData(partition_index=number, records=region) for number, region in enumerate(regions)]
    desk = Desk(
        lambda request, call: FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=partitions)]),
        "Fetch",
    )
    frame = bytearray(request_bytes(API["Fetch"], 4, API["Fetch"].request_class(), 5)[4:])
    chunks = desk.dispatcher.start(memoryview(frame), desk.caller)
    assert isinstance(chunks, list)
    assert [chunk for chunk in chunks if not isinstance(chunk, bytes)] == regions
    assert len(chunks) == 5, "head, body up to a region, region, body, region"
    whole = join(chunks)
    assert int.from_bytes(whole[:4], "big") == len(whole) - 4
    assert whole.endswith(b"456789")
    assert b"0123" in whole


@for_each("end", ["answered", "cancelled"])
def test_request_is_freed_after_its_response(end: str) -> None:
    """The request is freed without a garbage collection.

    Reference cycles would hold requests of up to 100 MiB until the next full collection.
    """
    requests = list[weakref.ref[Any]]()

    class Body:
        """Stands for the handler's decoded request."""

    def handle(request: Any, call: Any) -> DelayedOperation[Any]:
        body = Body()
        requests.append(weakref.ref(body))
        return DelayedOperation(("key",), None, lambda expired: HeartbeatResponse() if body else None)

    desk = Desk(handle)
    gc.disable()
    try:
        later = desk.start()
        if end == "answered":
            desk.purgatory.wake("key")
            desk.purgatory.run_ready()
            assert later.chunks
        else:
            later.cancel()
        assert requests[0]() is None
    finally:
        gc.enable()
