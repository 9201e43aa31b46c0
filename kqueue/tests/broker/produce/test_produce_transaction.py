"""Produce of transactions, with a coordinator whose answers the test decides."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import pytest

from kqueue.base.errors import (
    AnswerNotExpected,
    ConcurrentTransactions,
    CoordinatorNotAvailable,
    InvalidProducerIdMapping,
    KqueueError,
    ProducerFenced,
    TransactionAbortable,
)
from kqueue.base.promise import Promise
from kqueue.broker.produce import record_copies
from kqueue.broker.produce.produce_transaction import ProduceTransaction
from kqueue.broker.replicas.partition import Partition
from kqueue.tests.api.harness import ErrorCode, PendingRequest, SimulatedClient, batch, produce_request, values
from kqueue.tests.compiled import replaces_compiled
from kqueue.tests.tables import for_each
from kqueue.transactions.marker_writer import TopicPartition, TransactionMarker
from kqueue.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData


@dataclass
class Question:
    """One call of `add_partitions`."""

    partitions: Collection[TopicPartition]
    verify_only: bool
    version: int
    promise: Promise[None]


@dataclass
class ScriptedCoordinator:
    """Answers at once with `errors` in turn and then with success; `holds`: not before `answer`."""

    client: SimulatedClient
    holds: bool = False
    errors: list[KqueueError] = field(default_factory=list)
    questions: list[Question] = field(default_factory=list)

    def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        partitions: Collection[TopicPartition],
        *,
        verify_only: bool = False,
        transaction_version: int,
    ) -> Promise[None]:
        promise: Promise[None] = Promise()
        self.questions.append(Question(partitions, verify_only, transaction_version, promise))
        if not self.holds:
            self._settle(promise)
        return promise

    def _settle(self, promise: Promise[None]) -> None:
        if self.errors:
            promise.fail(self.errors.pop(0))
        else:
            promise.resolve(None)

    def answer(self) -> None:
        """Settle all that is asked."""
        for question in self.questions:
            if not question.promise.done:
                self._settle(question.promise)
                self.client.sim.broker.scheduler.purgatory.wake(question.promise)
        self.client.sim.settle()


@pytest.fixture
def client() -> SimulatedClient:
    client = SimulatedClient({"kqueue.storage": "local"})
    client.sim.topic("t", 3)
    return client


@pytest.fixture
def coordinator(client: SimulatedClient) -> ScriptedCoordinator:
    scripted = ScriptedCoordinator(client)
    client.sim.broker.coordinators.transaction_partitions = scripted  # type: ignore[assignment]
    return scripted


def records(value: bytes = b"a", sequence: int = 0, *, epoch: int = 0, producer_id: int = 7, **settings: Any) -> bytes:
    fields = {"transactional": True, **settings}
    return batch(value, producer_id=producer_id, epoch=epoch, base_sequence=sequence, **fields)


def start(client: SimulatedClient, raw: bytes, version: int = 12, partition: int = 0) -> PendingRequest:
    request = produce_request(client, "t", raw, version, partition, transactional_id="tx")
    return client.start(request, version)


def code(pending: PendingRequest) -> int | None:
    if pending.response is None:
        return None
    result: int = pending.response.responses[0].partition_responses[0].error_code
    return result


def end(client: SimulatedClient, epoch: int = 1, version: int = 2, *, commit: bool = True) -> None:
    marker = TransactionMarker(7, epoch, commit, 0, version, [("t", 0)])
    client.sim.broker.coordinators.markers.write(marker, lambda results: None)
    client.sim.settle()


@pytest.mark.parametrize("version", range(3, 14))
def test_the_coordinator_is_asked_once_per_transaction(
    client: SimulatedClient, coordinator: ScriptedCoordinator, version: int
) -> None:
    """New clients leave it to the broker to add a partition, for older ones it verifies it."""
    for sequence in range(3):
        answer = client.produce("t", records(b"%d" % sequence, sequence), version=version, transactional_id="tx")
        assert (answer.error_code, answer.base_offset) == (0, sequence)
    (question,) = coordinator.questions
    assert question.partitions == [("t", 0)]
    assert (question.verify_only, question.version) == ((False, 2) if version >= 12 else (True, 1))
    partition = client.sim.broker.topics.partition("t", 0)
    assert (partition.last_stable_offset, partition.high_watermark) == (0, 3)


@pytest.mark.parametrize("partitions", [1, 3])
@replaces_compiled
def test_a_request_that_waits_looks_at_each_batch_once(
    client: SimulatedClient, coordinator: ScriptedCoordinator, monkeypatch: pytest.MonkeyPatch, partitions: int
) -> None:
    looked_at: list[int] = []
    add = ProduceTransaction.add

    def counting(self: ProduceTransaction, partition: Partition, records: memoryview | None) -> None:
        looked_at.append(partition.index)
        add(self, partition, records)

    monkeypatch.setattr(ProduceTransaction, "add", counting)
    coordinator.holds = True
    pending = client.start(_request([records()] * partitions), 12)
    assert pending.response is None
    coordinator.answer()
    assert code(pending) == 0
    assert looked_at == list(range(partitions))


@for_each("version", [3, 11, 12])
def test_verification_can_be_disabled_for_old_clients_only(version: int) -> None:
    client = SimulatedClient({"transaction.partition.verification.enable": False})
    client.sim.topic("t")
    coordinator = ScriptedCoordinator(client)
    client.sim.broker.coordinators.transaction_partitions = coordinator  # type: ignore[assignment]
    assert client.produce("t", records(), version=version, transactional_id="tx").error_code == 0
    assert len(coordinator.questions) == (version >= 12)


@pytest.mark.parametrize(
    ("error", "version", "expected"),
    [
        (ProducerFenced(""), 12, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ProducerFenced(""), 3, ErrorCode.INVALID_PRODUCER_EPOCH),
        (TransactionAbortable(""), 12, ErrorCode.TRANSACTION_ABORTABLE),
        (TransactionAbortable(""), 11, ErrorCode.TRANSACTION_ABORTABLE),
        (TransactionAbortable(""), 10, ErrorCode.INVALID_TXN_STATE),
        (ConcurrentTransactions(""), 11, ErrorCode.NOT_ENOUGH_REPLICAS),
        (CoordinatorNotAvailable(""), 12, ErrorCode.NOT_ENOUGH_REPLICAS),
        (InvalidProducerIdMapping(""), 12, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    ],
)
def test_the_coordinators_errors_have_codes_that_the_client_knows(
    client: SimulatedClient, coordinator: ScriptedCoordinator, error: KqueueError, version: int, expected: int
) -> None:
    coordinator.errors.append(error)
    answer = client.produce("t", records(), version=version, transactional_id="tx")
    assert (answer.error_code, answer.base_offset) == (expected, -1)
    assert values(client) == []
    # the client repeats what was refused
    assert client.produce("t", records(), version=version, transactional_id="tx").error_code == 0


def test_a_transaction_that_is_being_completed_is_waited_for(
    client: SimulatedClient, coordinator: ScriptedCoordinator
) -> None:
    coordinator.errors += [ConcurrentTransactions("")] * 2
    pending = start(client, records())
    client.sim.settle()
    assert code(pending) is None
    client.sim.advance(20)
    assert (code(pending), len(coordinator.questions)) == (None, 2)
    client.sim.advance(20)
    assert (code(pending), len(coordinator.questions)) == (0, 3)


def test_transaction_that_never_completes_gets_a_retriable_error(
    client: SimulatedClient, coordinator: ScriptedCoordinator
) -> None:
    coordinator.errors += [ConcurrentTransactions("")] * 20
    pending = start(client, records())
    client.sim.advance(200)
    assert code(pending) == ErrorCode.NOT_ENOUGH_REPLICAS
    assert len(coordinator.questions) == 6


def test_records_are_copied_while_the_coordinator_is_asked(
    client: SimulatedClient, coordinator: ScriptedCoordinator
) -> None:
    coordinator.holds = True
    pending = start(client, records(b"first"))
    client.sim.settle()
    assert client.sim.broker.produce.copies.bytes == len(records(b"first"))
    pending.frame[:] = bytes(len(pending.frame))  # as the next request would
    coordinator.answer()
    assert code(pending) == 0
    assert client.sim.broker.produce.copies.bytes == 0
    assert values(client) == [b"first"]


def test_too_many_waiting_records_are_refused_for_a_retry(
    client: SimulatedClient, coordinator: ScriptedCoordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_copies, "COPIED_BYTES_MAX", 2 * len(records()))
    coordinator.holds = True
    first, second, third = (start(client, records(producer_id=number), partition=number) for number in range(3))
    client.sim.settle()
    assert [code(one) for one in (first, second, third)] == [None, None, ErrorCode.REQUEST_TIMED_OUT]
    coordinator.answer()
    assert [code(one) for one in (first, second)] == [0, 0]
    assert client.sim.broker.produce.copies.bytes == 0


def test_a_client_that_leaves_releases_what_it_held(client: SimulatedClient, coordinator: ScriptedCoordinator) -> None:
    coordinator.holds = True
    request = produce_request(client, "t", records(), 12, transactional_id="tx")
    pending = start(client, records())
    client.sim.settle()
    pending.cancel()
    coordinator.answer()
    del request
    assert code(pending) is None
    assert client.sim.broker.produce.copies.bytes == 0


def test_an_answer_from_before_a_marker_lets_nothing_in(
    client: SimulatedClient, coordinator: ScriptedCoordinator
) -> None:
    """KIP-890: it would stay open for ever, because no transaction would hold it."""
    coordinator.holds = True
    pending = start(client, records(), version=11)
    client.sim.settle()
    end(client, epoch=0, version=1, commit=False)
    coordinator.answer()
    assert code(pending) == ErrorCode.INVALID_TXN_STATE
    assert values(client)[1:] == []
    partition = client.sim.broker.topics.partition("t", 0)
    assert partition.last_stable_offset == partition.log_end_offset == 1


def test_after_the_marker_the_old_epoch_is_shut_out_and_the_new_one_begins_with_zero(
    client: SimulatedClient, coordinator: ScriptedCoordinator
) -> None:
    def produce(value: bytes, sequence: int, epoch: int) -> int:
        raw = records(value, sequence, epoch=epoch)
        result: int = client.produce("t", raw, version=12, transactional_id="tx").error_code
        return result

    assert produce(b"a", 0, 0) == 0
    end(client)
    assert produce(b"late", 1, 0) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert len(coordinator.questions) == 1
    assert produce(b"gap", 1, 1) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert produce(b"b", 0, 1) == 0
    assert values(client)[::2] == [b"a", b"b"]


def test_the_second_of_two_requests_can_not_take_the_place_of_a_refused_first(
    client: SimulatedClient, coordinator: ScriptedCoordinator
) -> None:
    coordinator.errors.append(CoordinatorNotAvailable(""))
    coordinator.holds = True
    first, second = start(client, records(b"a", 3), 11), start(client, records(b"b", 4), 11)
    coordinator.answer()
    assert code(first) == ErrorCode.NOT_ENOUGH_REPLICAS
    assert code(second) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    coordinator.holds = False
    assert code(start(client, records(b"a", 3), 11)) is None
    client.sim.settle()
    assert values(client) == [b"a"]


@pytest.mark.parametrize("version", [3, 12])
def test_transactional_records_need_a_transactional_id(
    client: SimulatedClient, coordinator: ScriptedCoordinator, version: int
) -> None:
    assert client.produce("t", records(), version=version).error_code == (
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    )
    no_producer = batch(b"a", transactional=True)
    assert client.produce("t", no_producer, version=version, transactional_id="tx").error_code == (
        ErrorCode.INVALID_RECORD
    )
    assert not coordinator.questions
    assert values(client) == []


def test_a_request_has_one_transactional_producer(client: SimulatedClient, coordinator: ScriptedCoordinator) -> None:
    request = _request([records(), records(producer_id=8), batch(b"plain")])
    response = client.ask(request, 12)
    codes = [one.error_code for one in response.responses[0].partition_responses]
    assert codes == [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 3
    assert not coordinator.questions


def _request(batches: list[bytes]) -> ProduceRequest:
    partitions = [PartitionProduceData(index=index, records=raw) for index, raw in enumerate(batches)]
    return ProduceRequest(
        transactional_id="tx",
        acks=-1,
        timeout_ms=1000,
        topic_data=[TopicProduceData(name="t", partition_data=partitions)],
    )


def test_plain_records_may_be_in_a_transactional_request(
    client: SimulatedClient, coordinator: ScriptedCoordinator
) -> None:
    response = client.ask(_request([batch(b"plain"), records(), records(transactional=False)]), 12)
    assert [one.error_code for one in response.responses[0].partition_responses] == [0, 0, 0]
    (question,) = coordinator.questions
    assert question.partitions == [("t", 1)]


def test_new_partitions_are_added_in_one_question_and_verified_one_by_one(
    client: SimulatedClient, coordinator: ScriptedCoordinator
) -> None:
    client.ask(_request([records(), records(), records()]), 12)
    (question,) = coordinator.questions
    assert question.partitions == [("t", 0), ("t", 1), ("t", 2)]
    coordinator.questions.clear()
    coordinator.errors += [TransactionAbortable(""), ProducerFenced("")]
    response = client.ask(_request([records(epoch=1), records(epoch=1), records(epoch=1)]), 11)
    assert [one.error_code for one in response.responses[0].partition_responses] == [
        ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.INVALID_PRODUCER_EPOCH, 0,
    ]  # fmt: skip
    assert [question.partitions for question in coordinator.questions] == [[("t", 0)], [("t", 1)], [("t", 2)]]


@pytest.mark.long
def test_a_large_request_is_handled_in_turns(client: SimulatedClient, coordinator: ScriptedCoordinator) -> None:
    count = 1200
    client.sim.topic("many", count)
    partitions = [PartitionProduceData(index=index, records=records()) for index in range(count)]
    request = ProduceRequest(
        transactional_id="tx", acks=-1, timeout_ms=1000,
        topic_data=[TopicProduceData(name="many", partition_data=partitions)],
    )  # fmt: skip
    coordinator.holds = True
    pending = client.start(request, 12)
    client.sim.settle()
    assert pending.response is None
    (question,) = coordinator.questions
    assert len(question.partitions) == count
    coordinator.answer()
    assert pending.response
    (topic,) = pending.response.responses
    assert {one.error_code for one in topic.partition_responses} == {0}
    assert client.sim.broker.produce.copies.bytes == 0


def test_a_failure_with_acks_0_closes_the_connection(client: SimulatedClient, coordinator: ScriptedCoordinator) -> None:
    request = produce_request(client, "t", records(), 12, acks=0, transactional_id="tx")
    assert client.ask(request, 12) is None
    assert values(client) == [b"a"]
    coordinator.errors.append(ProducerFenced(""))
    with pytest.raises(AnswerNotExpected):
        client.ask(produce_request(client, "t", records(epoch=1), 12, acks=0, transactional_id="tx"), 12)


def test_a_repeated_batch_is_answered_with_its_first_offset_when_it_is_committed(
    client: SimulatedClient, coordinator: ScriptedCoordinator
) -> None:
    first = start(client, records(b"a"))
    second = start(client, records(b"a"))
    assert first.response is None
    assert second.response is None  # not committed yet
    client.sim.settle()
    for pending in (first, second):
        assert pending.response is not None
        answer = pending.response.responses[0].partition_responses[0]
        assert (answer.error_code, answer.base_offset) == (0, 0)
    assert values(client) == [b"a"]
