"""Fetch at every version: limits, waiting, sessions, and what is not there."""

from __future__ import annotations

import pytest

from kqueue.api import handler_table
from kqueue.base.errors import StorageFailed
from kqueue.records.batch import iter_batches, iter_records
from kqueue.tests.api.fetch_client import fetch, one, parts, request, values, want
from kqueue.tests.api.harness import SimulatedClient, batch, produce_request, versions_of
from kqueue.tests.tables import for_each
from kqueue.wire.error_codes import ErrorCode

ON_DISK: dict[str, object] = {"kqueue.storage": "local"}
MODERN = range(4, 19)


@pytest.fixture
def client() -> SimulatedClient:
    client = SimulatedClient()
    client.sim.topic("t", 3)
    return client


@pytest.mark.parametrize("version", versions_of("fetch"))
def test_returns_records_from_the_offset_on(client: SimulatedClient, version: int) -> None:
    """S4.1: from the batch that holds the offset on."""
    for value in (b"a", b"b", b"c"):
        client.produce("t", batch(value))
    response = fetch(client, version, want(offset=1))
    data = one(response)
    assert (response.error_code, response.session_id) == (0, 0)
    assert (data.partition_index, data.error_code, data.high_watermark) == (0, 0, 3)
    assert data.last_stable_offset == (3 if version >= 4 else -1)
    assert data.log_start_offset == (0 if version >= 5 else -1)
    assert (data.preferred_read_replica, data.aborted_transactions or []) == (-1, [])
    assert values(data) == [b"b", b"c"]
    (topic,) = response.responses
    assert (topic.topic, topic.topic_id) == (
        ("", client.sim.broker.topics.get("t").id) if version >= 13 else ("t", bytes(16))
    )


@pytest.mark.parametrize("version", MODERN)
def test_batches_go_out_as_they_came_in(client: SimulatedClient, version: int) -> None:
    sent = batch(b"a" * 100, b"b" * 100, codec="gzip", producer_id=5, epoch=0, base_sequence=0)
    client.produce("t", sent)
    received = bytes(one(fetch(client, version, want())).records or b"")
    assert received[16:] == sent[16:]  # all but base offset and leader epoch, which the broker sets
    ((_, header),) = iter_batches(received)
    assert (header.base_offset, header.leader_epoch) == (0, client.sim.broker.replicas.host.sole_replica.leader_epoch)


@pytest.mark.parametrize("version", versions_of("fetch"))
def test_the_log_end_is_empty_and_offsets_outside_are_out_of_range(client: SimulatedClient, version: int) -> None:
    client.produce("t", batch(b"a"))
    empty, above, below = parts(fetch(client, version, want(offset=1), want(1, 9), want(2, -1)))
    assert (empty.error_code, empty.high_watermark, bytes(empty.records or b"?")) == (0, 1, b"") or empty.records == b""
    for outside in (above, below):
        assert (outside.error_code, outside.high_watermark) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
        assert outside.records is not None
        assert len(outside.records) == 0


@pytest.mark.parametrize("version", versions_of("fetch"))
def test_unknown_partitions_are_reported_individually(client: SimulatedClient, version: int) -> None:
    client.produce("t", batch(b"a"))
    known, lost = parts(fetch(client, version, want(), want(9)))
    assert (values(known), lost.error_code) == ([b"a"], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    unknown = one(fetch(client, version, want(), topic="nobody"))
    assert unknown.error_code == (ErrorCode.UNKNOWN_TOPIC_ID if version >= 13 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


@pytest.mark.parametrize("version", range(7))
def test_before_sessions_an_unexpected_error_is_reported_per_partition(client: SimulatedClient, version: int) -> None:
    response = handler_table.error_response(request(client, version, want(0), want(1)), version, ZeroDivisionError())
    assert [data.error_code for data in parts(response)] == [ErrorCode.UNKNOWN_SERVER_ERROR] * 2


# --- limits


@pytest.mark.parametrize("version", range(3, 19))
def test_the_first_batch_is_returned_whole_even_above_the_limit(client: SimulatedClient, version: int) -> None:
    """S4.3, S4.4b: the sizes asked for bound an answer, but a batch that is larger does not stop
    its reader.
    """
    for partition in (0, 1):
        client.produce("t", batch(b"x" * 1000), partition=partition)
        client.produce("t", batch(b"y" * 1000), partition=partition)
    empty, first, second = parts(fetch(client, version, want(2), want(0, size=10), want(1, size=10)))
    assert [len(values(data)) for data in (empty, first, second)] == [0, 1, 0]
    first, second = parts(fetch(client, version, want(1), want(0), max_bytes=1))
    assert [len(values(data)) for data in (first, second)] == [1, 0]
    assert second.error_code == 0


@pytest.mark.parametrize("version", MODERN)
def test_whole_batches_are_returned_up_to_the_limit(client: SimulatedClient, version: int) -> None:
    """S4.3, S4.4b: max.partition.fetch.bytes, fetch.max.bytes."""
    size = len(batch(b"x" * 100))
    for _ in range(5):
        client.produce("t", batch(b"x" * 100))
        client.produce("t", batch(b"x" * 100), partition=1)
    first, second = parts(fetch(client, version, want(0, size=size * 3 + 5), want(1), max_bytes=size * 5 + 5))
    assert [len(values(data)) for data in (first, second)] == [3, 2]


def test_the_broker_limits_the_response_size() -> None:
    client = SimulatedClient({"fetch.max.bytes": 1024})
    client.sim.topic("t", 1)
    for _ in range(5):
        client.produce("t", batch(b"x" * 400))
    assert len(values(one(fetch(client, 12, want())))) == 2


def test_hostile_numbers_are_answered(client: SimulatedClient) -> None:
    client.produce("t", batch(b"a"))
    for size in (-1, 0, -(2**31), 2**31 - 1):
        for fields in ({"max_bytes": size}, {"min_bytes": size, "max_wait_ms": 0}, {"max_wait_ms": min(size, 0)}):
            assert values(one(fetch(client, 12, want(size=size), **fields))) == [b"a"]


# --- waiting


def test_waits_for_the_first_record(client: SimulatedClient) -> None:
    started = client.start(request(client, 12, want(0), want(1), max_wait_ms=500), 12)
    assert started.response is None
    client.produce("t", batch(b"a"), partition=1)
    assert {data.partition_index: values(data) for data in parts(started.response)} == {0: [], 1: [b"a"]}


def test_waits_until_there_are_min_bytes(client: SimulatedClient) -> None:
    """S4.3: fetch.min.bytes."""
    size = len(batch(b"x" * 100))
    started = client.start(request(client, 12, want(0), want(1), max_wait_ms=500, min_bytes=size * 3), 12)
    for partition in (0, 1):
        client.produce("t", batch(b"x" * 100), partition=partition)
        assert started.response is None
    client.produce("t", batch(b"x" * 100))
    assert [len(values(data)) for data in parts(started.response)] == [2, 1]


@pytest.mark.parametrize("version", versions_of("fetch"))
def test_fetch_below_min_bytes_is_answered_at_max_wait(client: SimulatedClient, version: int) -> None:
    """S4.3: fetch.max.wait.ms."""
    client.produce("t", batch(b"a"))
    started = client.start(request(client, version, want(), max_wait_ms=500, min_bytes=10_000), version)
    client.sim.advance(499)
    assert started.response is None
    client.sim.advance(1)
    assert values(one(started.response)) == [b"a"]


def test_min_bytes_above_max_bytes_is_enough_at_max_bytes(client: SimulatedClient) -> None:
    client.produce("t", batch(b"x" * 100))
    started = client.start(request(client, 12, want(), max_wait_ms=500, min_bytes=10**6, max_bytes=50), 12)
    assert values(one(started.response)) == [b"x" * 100]


def test_an_error_does_not_wait(client: SimulatedClient) -> None:
    started = client.start(request(client, 12, want(), want(1, 99), max_wait_ms=500), 12)
    assert [data.error_code for data in parts(started.response)] == [0, ErrorCode.OFFSET_OUT_OF_RANGE]


def test_an_unknown_partition_does_not_end_the_wait_of_others(client: SimulatedClient) -> None:
    """Else a client whose topic went would ask again and again until it hears of it."""
    started = client.start(request(client, 12, want(), want(9), max_wait_ms=500), 12)
    assert started.response is None
    client.produce("t", batch(b"a"))
    assert [data.error_code for data in parts(started.response)] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert client.start(request(client, 12, want(9), max_wait_ms=500), 12).response is not None  # nothing to wait for


def test_a_topic_deleted_under_a_waiting_fetch_is_reported_at_once(client: SimulatedClient) -> None:
    started = client.start(request(client, 12, want(), max_wait_ms=500), 12)
    client.sim.result(client.sim.broker.topics.delete("t"))
    client.sim.settle()
    assert one(started.response).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_recreated_topic_is_found_by_a_session() -> None:
    client = SimulatedClient()
    client.sim.topic("t")
    session = fetch(client, 12, want(), session_epoch=0).session_id
    client.sim.result(client.sim.broker.topics.delete("t"))
    client.sim.topic("t")
    client.produce("t", batch(b"new"))
    assert values(one(fetch(client, 12, session_id=session, session_epoch=1))) == [b"new"]


def test_consumers_see_only_what_is_flushed() -> None:
    client = SimulatedClient(ON_DISK)
    partition = client.sim.topic("t").partition(0)
    client.sim.settle()
    client.start(produce_request(client, "t", batch(b"a"), acks=1), 9)
    before = client.start(request(client, 12, want()), 12)
    assert (partition.log_end_offset, one(before.response).high_watermark, values(one(before.response))) == (1, 0, [])
    waiting = client.start(request(client, 12, want(), max_wait_ms=500), 12)
    client.sim.settle()
    assert (one(waiting.response).high_watermark, values(one(waiting.response))) == (1, [b"a"])


def test_nothing_of_the_frame_is_kept_while_waiting(client: SimulatedClient) -> None:
    started = client.start(request(client, 12, want(), max_wait_ms=500), 12)
    started.frame.clear()  # BufferError, if anybody still looked at it
    client.produce("t", batch(b"a"))
    assert values(one(started.response)) == [b"a"]


def test_a_failed_disk_is_reported(client: SimulatedClient) -> None:
    client.produce("t", batch(b"a"))
    client.sim.broker.topics.partition("t", 0).log._fail(StorageFailed("the disk is gone"))
    assert one(fetch(client, 12, want())).error_code == ErrorCode.KAFKA_STORAGE_ERROR


# --- sessions


@pytest.mark.parametrize("version", range(7, 19))
def test_a_session_names_only_what_changed(client: SimulatedClient, version: int) -> None:
    first = fetch(client, version, want(0), want(1), want(2), session_epoch=0)
    assert first.session_id > 0
    assert [data.partition_index for data in parts(first)] == [0, 1, 2]
    session = {"session_id": first.session_id}
    second = fetch(client, version, **session, session_epoch=1)
    assert (second.error_code, second.session_id, second.responses) == (0, first.session_id, [])
    client.produce("t", batch(b"a"), partition=1)
    third = fetch(client, version, **session, session_epoch=2)
    assert [(data.partition_index, values(data)) for data in parts(third)] == [(1, [b"a"])]
    moved = fetch(client, version, want(1, 1), **session, session_epoch=3)
    assert moved.responses == []
    forgotten = fetch(client, version, **session, session_epoch=4, forget=[0, 2])
    assert (forgotten.session_id, forgotten.responses) == (first.session_id, [])
    ended = fetch(client, version, **session, session_epoch=5, forget=[1])
    assert (ended.error_code, ended.session_id) == (0, 0)


@pytest.mark.parametrize("version", range(7, 19))
def test_unknown_sessions_and_wrong_epochs_are_refused(client: SimulatedClient, version: int) -> None:
    session = fetch(client, version, want(), session_epoch=0).session_id
    assert (
        fetch(client, version, session_id=session, session_epoch=7).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    )
    assert (
        fetch(client, version, session_id=session ^ 1, session_epoch=1).error_code
        == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    )


def test_a_session_by_name_does_not_go_on_by_id(client: SimulatedClient) -> None:
    session = fetch(client, 12, want(), session_epoch=0).session_id
    assert fetch(client, 13, session_id=session, session_epoch=1).error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_a_waiting_fetch_whose_session_went_on_is_refused(client: SimulatedClient) -> None:
    session = fetch(client, 12, want(), session_epoch=0).session_id
    slow = client.start(request(client, 12, session_id=session, session_epoch=1, max_wait_ms=500), 12)
    fetch(client, 12, session_id=session, session_epoch=2)
    client.produce("t", batch(b"a"))
    assert slow.response.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_busy_partitions_of_a_session_take_turns(client: SimulatedClient) -> None:
    for partition in range(3):
        for _ in range(3):
            client.produce("t", batch(b"x" * 100), partition=partition)
    session = fetch(client, 12, want(0), want(1), want(2), session_epoch=0, max_bytes=1).session_id
    order = []
    for epoch in range(1, 5):
        response = fetch(client, 12, session_id=session, session_epoch=epoch, max_bytes=1)
        order += [data.partition_index for data in parts(response) if values(data)]
    assert order == [0, 1, 2, 0]


@for_each("version", range(7, 13))
def test_a_session_returns_a_partition_again_after_an_error(version: int) -> None:
    client = SimulatedClient()
    client.sim.topic("t")
    client.produce("t", batch(b"a" * 100))
    response = fetch(client, version, want(offset=2), session_epoch=0)
    assert one(response).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    moved = fetch(client, version, want(offset=1), session_id=response.session_id, session_epoch=1)
    assert (one(moved).error_code, one(moved).high_watermark) == (0, 1)


def test_slots_are_bounded() -> None:
    client = SimulatedClient({"max.incremental.fetch.session.cache.slots": 1})
    client.sim.topic("t")
    assert fetch(client, 12, want(), session_epoch=0).session_id > 0
    second = fetch(client, 12, want(), session_epoch=0)
    assert (second.error_code, second.session_id, len(parts(second))) == (0, 0, 1)


def test_following_a_log_gives_each_record_once(client: SimulatedClient) -> None:
    """Produce and fetch in turns, as a consumer follows, over segments that roll."""
    client.sim.topic("rolling", segment_bytes="500")
    received: list[bytes | None] = []
    offset = 0
    for number in range(40):
        client.produce("rolling", batch(b"%d" % number, b"%d+" % number))
        if number % 3 == 0:
            while True:
                data = one(fetch(client, 12, want(offset=offset, size=300), topic="rolling"))
                records = [
                    record
                    for at, _ in iter_batches(bytes(data.records or b""))
                    for record in iter_records(bytes(data.records), at)
                ]
                if not records:
                    break
                received += [record.value for record in records if record.offset >= offset]
                offset = records[-1].offset + 1
    assert received == [value for number in range(40) for value in (b"%d" % number, b"%d+" % number)]
