"""Offsets of a group, committed within a transaction by its producer."""

from __future__ import annotations

from typing import Any

import pytest

from kqueue.api.handlers import txn_offset_commit
from kqueue.base.errors import CoordinatorLoadInProgress, ProducerFenced, StorageFailed, TransactionAbortable
from kqueue.base.promise import Promise
from kqueue.broker.topics.topics import OFFSETS_TOPIC
from kqueue.tests.api.group_client import codes, committed, join, stable, start_join, sync, world
from kqueue.tests.api.handlers import test_consumer_group_heartbeat as heartbeat
from kqueue.tests.api.harness import SimulatedClient, versions_of
from kqueue.tests.groups.support import is_pending
from kqueue.tests.tables import for_each
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kqueue.wire.messages.end_txn import EndTxnRequest
from kqueue.wire.messages.init_producer_id import InitProducerIdRequest
from kqueue.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

VERSIONS = versions_of("txn_offset_commit")
LATEST = 5
VERIFYING = 4
MEMBERS = [version for version in VERSIONS if version >= 3]
Offsets = dict[tuple[str, int], int]


class TransactionalClient:
    """A producer with the transactional id ``x``; `client` reaches its broker."""

    def __init__(self, client: SimulatedClient) -> None:
        self.client = client
        self.init()

    def init(self) -> None:
        request = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000)
        response = self.client.ask(request, 5)
        if response.error_code == ErrorCode.CONCURRENT_TRANSACTIONS:  # it aborts the open one first
            response = self.client.ask(request, 5)
        assert response.error_code == 0
        self.id, self.epoch = response.producer_id, response.producer_epoch

    def add_offsets(self, group_id: str = "g") -> None:
        """As clients before version 5 do."""
        request = AddOffsetsToTxnRequest(
            transactional_id="x", producer_id=self.id, producer_epoch=self.epoch, group_id=group_id
        )
        assert self.client.ask(request, 3).error_code == 0

    def request(self, offsets: Offsets, metadata: str | None = "", **fields: Any) -> TxnOffsetCommitRequest:
        topics: dict[str, TxnOffsetCommitRequestTopic] = {}
        for (name, index), offset in offsets.items():
            topic = topics.setdefault(name, TxnOffsetCommitRequestTopic(name=name))
            topic.partitions.append(
                TxnOffsetCommitRequestPartition(
                    partition_index=index, committed_offset=offset, committed_metadata=metadata
                )
            )
        given = {
            "transactional_id": "x",
            "group_id": "g",
            "producer_id": self.id,
            "producer_epoch": self.epoch,
            "topics": list(topics.values()),
        }
        return TxnOffsetCommitRequest(**{**given, **fields})

    def commit(self, offsets: Offsets, version: int = LATEST, **fields: Any) -> dict[tuple[int, int], int]:
        """Position of the topic in the request and partition -> error code."""
        return codes(self.client.ask(self.request(offsets, **fields), version))

    def end(self, committed: bool, version: int = LATEST) -> None:
        request = EndTxnRequest(
            transactional_id="x", producer_id=self.id, producer_epoch=self.epoch, committed=committed
        )
        response = self.client.ask(request, version)
        assert response.error_code == 0
        if version >= 5:
            self.id, self.epoch = response.producer_id, response.producer_epoch


def producer(client: SimulatedClient | None = None, **settings: Any) -> TransactionalClient:
    return TransactionalClient(client or world(**settings))


@for_each("version", VERSIONS)
@for_each("committed_at_end", [True, False])
def test_the_end_of_the_transaction_decides(version: int, committed_at_end: bool) -> None:
    txn = producer()
    if version < 5:
        txn.add_offsets()
    assert txn.commit({("t", 0): 5, ("t", 1): 2**62}, version) == {(0, 0): 0, (0, 1): 0}
    groups = txn.client.sim.broker.coordinators.groups
    assert committed(txn.client) == {}
    assert is_pending(groups, "g", "t", 0)
    txn.end(committed_at_end, 5 if version == 5 else 3)
    assert committed(txn.client) == ({("t", 0): 5, ("t", 1): 2**62} if committed_at_end else {})
    assert not is_pending(groups, "g", "t", 0)


def test_version_5_adds_the_partition_of_the_group() -> None:
    txn = producer()
    assert txn.commit({("t", 0): 5}) == {(0, 0): 0}
    broker = txn.client.sim.broker
    [partition] = broker.coordinators.transactions.describe("x").partitions
    assert partition == (OFFSETS_TOPIC, broker.coordinators.groups.partition_of("g"))


@for_each("version", [version for version in VERSIONS if version < LATEST])
def test_older_versions_must_have_added_the_group(version: int) -> None:
    expected = ErrorCode.TRANSACTION_ABORTABLE if version >= 4 else ErrorCode.INVALID_TXN_STATE
    txn = producer()
    assert txn.commit({("t", 0): 5}, version) == {(0, 0): expected}
    partition_of = txn.client.sim.broker.coordinators.groups.partition_of
    txn.add_offsets(next(name for name in ("other", "else", "more") if partition_of(name) != partition_of("g")))
    assert txn.commit({("t", 0): 5}, version) == {(0, 0): expected}
    assert not is_pending(txn.client.sim.broker.coordinators.groups, "g", "t", 0)


def test_verification_can_be_switched_off() -> None:
    txn = producer(transaction_partition_verification_enable=False)
    assert txn.commit({("t", 0): 5}, VERIFYING) == {(0, 0): 0}
    assert is_pending(txn.client.sim.broker.coordinators.groups, "g", "t", 0)


@for_each("version", VERSIONS)
def test_unknown_entries_are_refused_individually(version: int) -> None:
    txn = producer()
    if version < 5:
        txn.add_offsets()
    nowhere = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    requested = {("t", 2): 1, ("t", 0): 5, ("nobody", 0): 1, ("t", -1): 1}
    assert txn.commit(requested, version) == {(0, 2): nowhere, (0, 0): 0, (0, -1): nowhere, (1, 0): nowhere}
    txn.end(True, 5 if version == 5 else 3)
    assert committed(txn.client) == {("t", 0): 5}


def test_a_request_without_a_partition_that_exists_begins_no_transaction() -> None:
    txn = producer()
    assert txn.commit({("nobody", 0): 1}) == {(0, 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert txn.commit({}) == {}
    assert txn.client.sim.broker.coordinators.transactions.describe("x").partitions == frozenset()


@for_each("version", MEMBERS)
def test_members_are_checked(version: int) -> None:
    txn = producer()
    if version < 5:
        txn.add_offsets()
    joined = stable(txn.client)
    member = {"generation_id": joined.generation_id, "member_id": joined.member_id}
    assert txn.commit({("t", 0): 5}, version, **member) == {(0, 0): 0}
    assert txn.commit({("t", 0): 6}, version) == {(0, 0): 0}, "without a member it is not checked"
    wrong = {**member, "generation_id": 7}
    assert txn.commit({("t", 0): 7}, version, **wrong) == {(0, 0): ErrorCode.ILLEGAL_GENERATION}
    wrong = {**member, "member_id": "x"}
    assert txn.commit({("t", 0): 7}, version, **wrong) == {(0, 0): ErrorCode.UNKNOWN_MEMBER_ID}
    wrong = {**member, "group_id": "missing"}
    if version == 5:
        assert txn.commit({("t", 0): 7}, version, **wrong) == {(0, 0): ErrorCode.ILLEGAL_GENERATION}
    txn.end(True, 5 if version == 5 else 3)
    assert committed(txn.client) == {("t", 0): 6}


@for_each("version", MEMBERS)
def test_members_of_the_new_protocol_are_checked(version: int) -> None:
    txn = producer()
    if version < 5:
        txn.add_offsets()
    assert heartbeat.join(txn.client).member_epoch == 2
    member = {"generation_id": 2, "member_id": "m"}
    assert txn.commit({("t", 0): 5}, version, **member) == {(0, 0): 0}
    assert txn.commit({("t", 1): 6}, version) == {(0, 1): 0}, "without a member it is not checked"
    for wrong, code in (
        ({**member, "generation_id": 1}, ErrorCode.ILLEGAL_GENERATION),  # Kafka: not STALE_MEMBER_EPOCH
        ({**member, "generation_id": 3}, ErrorCode.ILLEGAL_GENERATION),
        ({**member, "member_id": "x"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ):
        assert txn.commit({("t", 0): 7}, version, **wrong) == {(0, 0): code}
    txn.end(True, 5 if version == 5 else 3)
    assert committed(txn.client) == {("t", 0): 5, ("t", 1): 6}
    txn.client.ask(heartbeat.joining(topic_partitions=None, member_epoch=-1), 1)
    assert txn.commit({("t", 0): 8}, **member) == {(0, 0): ErrorCode.UNKNOWN_MEMBER_ID}, "it was fenced"


def test_a_fenced_instance_commits_nothing() -> None:
    txn = producer()
    first = join(txn.client, group_instance_id="i")
    sync(txn.client, first, group_instance_id="i")
    start_join(txn.client, group_instance_id="i")
    fields = {"generation_id": 1, "member_id": first.member_id, "group_instance_id": "i"}
    assert txn.commit({("t", 0): 5}, **fields) == {(0, 0): ErrorCode.FENCED_INSTANCE_ID}


def test_an_empty_group_id_is_invalid() -> None:
    txn = producer()
    assert txn.commit({("t", 0): 5}, group_id="") == {(0, 0): ErrorCode.INVALID_GROUP_ID}


@for_each("version", VERSIONS)
def test_a_fenced_producer_commits_nothing(version: int) -> None:
    txn = producer()
    if version < 5:
        txn.add_offsets()
    old = {"producer_id": txn.id, "producer_epoch": txn.epoch}
    txn.init()
    assert txn.commit({("t", 0): 5}, version, **old) == {(0, 0): ErrorCode.INVALID_PRODUCER_EPOCH}
    unknown = {"producer_id": 12345}
    assert txn.commit({("t", 0): 5}, version, **unknown) == {(0, 0): ErrorCode.INVALID_PRODUCER_ID_MAPPING}
    nobody = {"producer_id": -1, "producer_epoch": -1}
    assert txn.commit({("t", 0): 5}, version, **nobody) == {(0, 0): ErrorCode.INVALID_PRODUCER_ID_MAPPING}


def test_a_late_commit_of_an_ended_transaction_is_refused_by_the_log() -> None:
    """Without verification, the epoch that the marker left in the log fences it."""
    txn = producer(transaction_partition_verification_enable=False)
    assert txn.commit({("t", 0): 5}) == {(0, 0): 0}
    old = {"producer_id": txn.id, "producer_epoch": txn.epoch}
    txn.end(True)
    assert txn.commit({("t", 0): 6}, VERIFYING, **old) == {(0, 0): ErrorCode.INVALID_PRODUCER_EPOCH}
    assert committed(txn.client) == {("t", 0): 5}
    assert not is_pending(txn.client.sim.broker.coordinators.groups, "g", "t", 0)


def test_metadata_has_its_bound() -> None:
    txn = producer(offset_metadata_max_bytes=10)
    request = txn.request({("t", 0): 5}, metadata="m" * 11)
    assert codes(txn.client.ask(request, LATEST)) == {(0, 0): ErrorCode.OFFSET_METADATA_TOO_LARGE}
    request = txn.request({("t", 0): 5}, metadata=None)
    assert codes(txn.client.ask(request, LATEST)) == {(0, 0): 0}
    txn.end(True)
    assert txn.client.sim.broker.coordinators.groups.offsets("g")["t"][0].metadata == ""


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("error", "before", "since", "code"),
    [
        (ProducerFenced(), None, 0, ErrorCode.INVALID_PRODUCER_EPOCH),
        (TransactionAbortable(), ErrorCode.INVALID_TXN_STATE, 4, ErrorCode.TRANSACTION_ABORTABLE),
        (
            CoordinatorLoadInProgress(),
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
            2,
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ),
    ],
)
def test_clients_get_the_errors_that_they_know(
    version: int, error: Any, before: ErrorCode | None, since: int, code: ErrorCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    txn = producer()
    failed: Promise[None] = Promise()
    failed.fail(error)
    monkeypatch.setattr(
        txn.client.sim.broker.coordinators.transactions, "add_partitions", lambda *args, **options: failed
    )
    assert txn.commit({("t", 0): 5}, version) == {(0, 0): code if version >= since else before}


def test_a_commit_that_is_not_done_in_time_can_be_repeated() -> None:
    client = world(kqueue_storage="local")
    txn = producer(client)
    assert txn.commit({("t", 0): 5}) == {(0, 0): 0}
    started = client.start(txn.request({("t", 0): 6}), LATEST)
    client.sim.clock.advance(5_000)
    client.sim.broker.scheduler.timers.run_due(client.sim.clock.monotonic_ms())
    assert codes(started.response) == {(0, 0): ErrorCode.COORDINATOR_NOT_AVAILABLE}


def test_an_unreadable_partition_of_the_log_refuses_its_groups() -> None:
    txn = producer()
    groups = txn.client.sim.broker.coordinators.groups
    groups.refuse(groups.partition_of("g"), "damaged")
    assert txn.commit({("t", 0): 5}) == {(0, 0): ErrorCode.NOT_COORDINATOR}


def test_an_error_goes_to_every_partition() -> None:
    txn = producer()
    request = txn.request({("t", 0): 5, ("u", 1): 6})
    response = txn_offset_commit.error_response(request, LATEST, StorageFailed("disk"))
    assert codes(response) == {(0, 0): ErrorCode.KAFKA_STORAGE_ERROR, (1, 1): ErrorCode.KAFKA_STORAGE_ERROR}


def test_many_partitions_are_handled_in_slices() -> None:
    txn = producer()
    txn.client.sim.topic("wide", 3000)
    requested = {("wide", index): index for index in range(3000)}
    started = txn.client.start(txn.request(requested), LATEST)
    assert started.response is None
    txn.client.sim.settle()
    assert set(codes(started.response).values()) == {0}
    txn.end(True)
    assert len(committed(txn.client)) == 3000
