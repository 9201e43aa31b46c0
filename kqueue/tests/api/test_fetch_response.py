"""What a fetch tells of a partition besides its records: epochs, divergence, transactions."""

from __future__ import annotations

import pytest

from kqueue.tests.api.fetch_client import append, end_transaction, fetch, one, parts, transaction, values, want
from kqueue.tests.api.harness import SimulatedClient, batch
from kqueue.wire.error_codes import ErrorCode

MODERN = range(4, 19)


@pytest.fixture
def asker() -> SimulatedClient:
    asker = SimulatedClient()
    asker.sim.topic("t", 3)
    return asker


@pytest.mark.parametrize("version", range(9, 19))
def test_clients_of_another_epoch_are_told(asker: SimulatedClient, version: int) -> None:
    asker.sim.broker.leader_epoch = 5
    response = fetch(
        asker, version, want(current_leader_epoch=4), want(1, current_leader_epoch=6), want(2, current_leader_epoch=5)
    )
    old, new, same = parts(response)
    assert [data.error_code for data in (old, new, same)] == [
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        0,
    ]
    if version >= 16:
        assert (old.current_leader.leader_id, old.current_leader.leader_epoch) == (1, 5)
        assert [(node.node_id, node.host, node.port) for node in response.node_endpoints] == [(1, "127.0.0.1", 9092)]
    else:
        assert old.current_leader.leader_id == -1
        assert response.node_endpoints == []
    assert new.current_leader.leader_id == -1


@pytest.mark.parametrize("version", range(12, 19))
def test_a_client_whose_log_parted_from_ours_is_told_where(asker: SimulatedClient, version: int) -> None:
    broker = asker.sim.broker
    for epoch, count in ((2, 3), (5, 2)):
        broker.leader_epoch = epoch
        for _ in range(count):
            asker.produce("t", batch(b"a"))
    for last, offset, expected in ((3, 4, (2, 3)), (2, 4, (2, 3)), (5, 9, (5, 5))):
        data = one(fetch(asker, version, want(offset=offset, last_fetched_epoch=last)))
        assert (data.error_code, (data.diverging_epoch.epoch, data.diverging_epoch.end_offset)) == (0, expected)
        assert (data.high_watermark, data.log_start_offset, data.records) == (5, 0, b"")
    fine = one(fetch(asker, version, want(offset=3, last_fetched_epoch=2)))
    assert (len(values(fine)), fine.diverging_epoch.epoch) == (2, -1)
    unknown = one(fetch(asker, version, want(offset=3, last_fetched_epoch=9)))
    assert unknown.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize("version", MODERN)
def test_read_committed_stops_at_open_transactions_and_lists_aborted_ones(asker: SimulatedClient, version: int) -> None:
    """Transactions are not served, but a log that Kafka wrote may hold them."""
    append(asker, transaction(b"aborted", 1))  # 0
    append(asker, transaction(b"open", 2))  # 1
    append(asker, batch(b"plain"))  # 2
    end_transaction(asker, 1, commits=False)  # 3
    committed = one(fetch(asker, version, want(), isolation_level=1))
    assert (committed.last_stable_offset, committed.high_watermark, len(values(committed))) == (1, 4, 1)
    end_transaction(asker, 2, commits=True)  # 4
    committed = one(fetch(asker, version, want(), isolation_level=1))
    assert (committed.last_stable_offset, len(values(committed))) == (5, 5)
    assert [(one.producer_id, one.first_offset) for one in committed.aborted_transactions or ()] == [(1, 0)]
    uncommitted = one(fetch(asker, version, want()))
    assert (uncommitted.aborted_transactions, len(values(uncommitted))) == (None, 5)
    empty = one(fetch(asker, version, want(offset=5), isolation_level=1))
    assert empty.aborted_transactions == []
