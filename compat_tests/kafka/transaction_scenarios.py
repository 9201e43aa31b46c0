"""Requests of producers, of transactions and of their readers, whose answers must be the same from
Kafka and from kqueue.

Producer ids differ between brokers, so they are replaced by the order in which a scenario got them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from compat_tests.kafka.admin_scenarios import Ask, Scenario, created, topic
from compat_tests.waits import look_until
from kqueue.records.batch import iter_batches
from kqueue.records.builder import BatchBuilder
from kqueue.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from kqueue.wire.messages.describe_transactions import DescribeTransactionsRequest
from kqueue.wire.messages.end_txn import EndTxnRequest
from kqueue.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kqueue.wire.messages.find_coordinator import FindCoordinatorRequest
from kqueue.wire.messages.init_producer_id import InitProducerIdRequest
from kqueue.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kqueue.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

TIMEOUT_MS = 60_000
TIME_MS = 1_700_000_000_000
SEQUENCE_MAX = 2**31 - 1
TRANSACTION = 1
"""The type of key of a transaction coordinator."""
ADDING = 12
"""The version of Produce from which the broker adds partitions to the transaction."""
VERIFYING = 11
NOT_YET = (3, 6, 14, 15, 16, 51)
"""Errors of a topic or coordinator that is not ready, or completes a transaction."""


class Producer:
    """A producer id, with the epoch that its broker gave it last."""

    def __init__(self, ask: Ask, transactional_id: str | None = None) -> None:
        self.ask = ask
        self.transactional_id = transactional_id
        if transactional_id is not None:  # Kafka creates the coordinator's topic when it is looked for
            find = FindCoordinatorRequest(key=transactional_id, key_type=TRANSACTION)
            retried(lambda: ask(find, 3), lambda answer: answer.error_code)
        request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=TIMEOUT_MS)
        answer = retried(lambda: ask(request, 5), lambda answer: answer.error_code)
        self.id, self.epoch = answer.producer_id, answer.producer_epoch

    def write(
        self,
        name: str,
        sequence: int,
        count: int = 1,
        *,
        epoch: int | None = None,
        version: int = ADDING,
        index: int = 0,
    ) -> Any:
        """The answer to one batch, without the time of the append."""
        builder = BatchBuilder(
            producer_id=self.id,
            epoch=self.epoch if epoch is None else epoch,
            base_sequence=sequence,
            transactional=self.transactional_id is not None,
        )
        for number in range(count):
            builder.append(TIME_MS + number, b"k", b"v" * 100)
        return written(self.ask, name, bytes(builder.build()), self.transactional_id, version, index)

    def end(self, *, commit: bool, version: int = 5, epoch: int | None = None) -> Any:
        """End the transaction; returns the error, and how far the epoch has moved."""
        before = self.epoch if epoch is None else epoch
        request = EndTxnRequest(
            transactional_id=self.transactional_id, producer_id=self.id, producer_epoch=before, committed=commit
        )
        answer = retried(lambda: self.ask(request, version), lambda answer: answer.error_code)
        if answer.error_code:
            return answer.error_code
        if version >= 5:
            self.epoch = answer.producer_epoch
        self.completed()
        return 0, self.epoch - before

    def completed(self) -> Any:
        """Its state, once no transaction of it is open or being completed."""
        request = DescribeTransactionsRequest(transactional_ids=[self.transactional_id])
        state = look_until(
            lambda: self.ask(request, 0).transaction_states[0],
            lambda state: state.transaction_state.startswith("Complete"),
            "a transaction that is completed",
        )
        return state.transaction_state, state.transaction_timeout_ms, state.producer_epoch, state.topics


def retried(ask: Callable[[], Any], code_of: Callable[[Any], int]) -> Any:
    """The answer, once its error is none of `NOT_YET`."""
    return look_until(ask, lambda answer: code_of(answer) not in NOT_YET, "another error than NOT_YET")


def written(
    ask: Ask, name: str, records: bytes, transactional_id: str | None = None, version: int = ADDING, index: int = 0
) -> Any:
    """The answer to one batch; of a time only whether there is one."""
    data = PartitionProduceData(index=index, records=records)
    request = ProduceRequest(
        transactional_id=transactional_id,
        acks=-1,
        timeout_ms=20_000,
        topic_data=[TopicProduceData(name=name, partition_data=[data])],
    )
    answer = retried(
        lambda: ask(request, version).responses[0].partition_responses[0], lambda answer: answer.error_code
    )
    answer.log_append_time_ms = min(answer.log_append_time_ms, 0)
    return answer


def plain(ask: Ask, name: str, count: int = 1) -> Any:
    """The answer to a batch without a producer id."""
    builder = BatchBuilder()
    for number in range(count):
        builder.append(TIME_MS + number, b"k", b"v")
    return written(ask, name, bytes(builder.build()))


def idempotence(ask: Ask) -> Iterator[Any]:
    """The window of five batches, gaps, epochs, the end of the sequence, other partitions."""
    created(ask, topic("i", 3, 1), topic("i-stamped", 1, 1, message_timestamp_type="LogAppendTime"))
    for name in ("i", "i-stamped"):
        producer = Producer(ask)
        for number in [*range(8), *range(8)]:
            yield producer.write(name, number * 2, 2)
        for sequence, count in ((14, 1), (15, 3), (20, 1), (12, 4), (16, 1)):
            yield producer.write(name, sequence, count)
        for epoch, sequence in ((1, 5), (1, 0), (1, 0), (0, 17), (0, 16), (1, 1), (-1, 2)):
            yield producer.write(name, sequence, epoch=epoch)
        yield producer.write(name, 17, epoch=0, version=9)
    for sequence in (77, 78, 80):
        yield producer.write("i", sequence, index=1)
    wrapping = Producer(ask)
    for sequence, count in (
        (SEQUENCE_MAX - 2, 1),
        (SEQUENCE_MAX - 1, 5),
        (SEQUENCE_MAX - 1, 5),
        (3, 1),
        (4, 1),
        (SEQUENCE_MAX - 1, 5),
        (-5, 1),
    ):
        yield wrapping.write("i", sequence, count, index=2)


def transactions_of_version_2(ask: Ask) -> Iterator[Any]:
    """Partitions added by Produce; epochs that rise; late requests."""
    created(ask, topic("v2", 2, 1))
    producer = Producer(ask, "v2")
    yield producer.end(commit=True)
    yield producer.write("v2", 4)
    yield producer.write("v2", 0, 2), producer.write("v2", 0, 2, index=1), producer.write("v2", 0, 2)
    late = producer.epoch
    yield producer.end(commit=True), producer.completed()
    yield producer.end(commit=True, epoch=late), producer.end(commit=False, epoch=late)
    yield producer.write("v2", 2, epoch=late), producer.write("v2", 2, epoch=late, version=VERIFYING)
    yield producer.write("v2", 0), producer.end(commit=False), producer.completed()
    yield read(ask, "v2", 0, 0), read(ask, "v2", 0, 1), active(ask, "v2", 2)
    again = Producer(ask, "v2")
    yield again.epoch - producer.epoch, producer.write("v2", 0), producer.end(commit=True)


def active(ask: Ask, name: str, count: int) -> Any:
    """The producers of the partitions, without ids and times."""
    request = DescribeProducersRequest(topics=[TopicRequest(name=name, partition_indexes=list(range(count)))])
    answer = ask(request, 0)
    for partition in answer.topics[0].partitions:
        for row in partition.active_producers:
            row.producer_id = row.last_timestamp = 0
    answer.topics[0].partitions.sort(key=lambda row: row.partition_index)
    return answer


def read(ask: Ask, name: str, offset: int, isolation: int, size: int = 1 << 20, version: int = 11) -> Any:
    """What a fetch returns: error, offsets, whether it names aborted transactions, the batches."""
    wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=size)
    request = FetchRequest(
        max_wait_ms=0, min_bytes=1, isolation_level=isolation, topics=[FetchTopic(topic=name, partitions=[wanted])]
    )
    data = ask(request, version).responses[0].partitions[0]
    records = memoryview(bytes(data.records or b""))
    batches = [(header.base_offset, header.last_offset, header.attributes) for _, header in iter_batches(records)]
    end = batches[-1][1] if batches else offset
    aborted = data.aborted_transactions
    # Kafka also names transactions that begin after the last batch
    firsts = None if aborted is None else sorted(row.first_offset for row in aborted if row.first_offset <= end)
    return data.error_code, data.high_watermark, data.last_stable_offset, data.log_start_offset, firsts, batches


def reading_transactions(ask: Ask) -> Iterator[Any]:
    """Interleaved transactions, one of them open, read from each offset with each bound."""
    created(ask, topic("f", 1, 1))
    first, second, third, open_one = (Producer(ask, f"f-{number}") for number in range(4))
    third.write("f", 0)
    first.write("f", 0)
    second.write("f", 0)
    first.write("f", 1)
    first.end(commit=False)
    second.write("f", 1)
    second.end(commit=True)
    plain(ask, "f", 2)
    first.write("f", 0)
    first.end(commit=False)
    third.write("f", 1)
    third.end(commit=False)
    open_one.write("f", 0)
    first.write("f", 0, 3)
    first.end(commit=False)
    plain(ask, "f", 2)
    end = read(ask, "f", 0, 0)[1]
    for offset in range(end + 2):
        for size in (1, 150, 330, 500, 1 << 20):
            yield offset, size, [read(ask, "f", offset, isolation, size) for isolation in (0, 1)]
    for version in range(4, 13):
        yield version, [read(ask, "f", 3, isolation, version=version) for isolation in (0, 1)]
    for timestamp in (-2, -1, TIME_MS, TIME_MS + 1):
        for isolation in (0, 1):
            wanted = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
            request = ListOffsetsRequest(
                replica_id=-1, isolation_level=isolation, topics=[ListOffsetsTopic(name="f", partitions=[wanted])]
            )
            answer = ask(request, 8).topics[0].partitions[0]
            yield timestamp, isolation, answer.error_code, answer.offset, answer.leader_epoch
    yield open_one.end(commit=True), read(ask, "f", end, 1), active(ask, "f", 1).topics[0].partitions[0].error_code


SCENARIOS: tuple[Scenario, ...] = (idempotence, transactions_of_version_2, reading_transactions)
