"""Clients of coordinators in a simulated cluster: transactions of a bank, and offsets of a group.

The bank moves amounts between partitions, one transaction at a time. Of each transaction it knows
whether it was committed, was not, or may have been. What a read_committed consumer sees must agree:
all of a transaction or nothing, each record once, and a sum of zero.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import Any

from kqueue.interbroker.errors import PeerError
from kqueue.records.batch import ABORT, iter_batches, iter_records
from kqueue.records.builder import BatchBuilder
from kqueue.replication.registrations import PartitionRegistration
from kqueue.tests.simulation.cluster_invariants import History, Key
from kqueue.tests.simulation.replication_world import InvariantViolated
from kqueue.tests.simulation.simulated_clients import FETCH_WAIT_MS, RETRIABLE, Client, ClientHost
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.end_txn import EndTxnRequest
from kqueue.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kqueue.wire.messages.find_coordinator import FindCoordinatorRequest
from kqueue.wire.messages.init_producer_id import InitProducerIdRequest
from kqueue.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kqueue.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kqueue.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

GROUP, TRANSACTION = 0, 1
"""Types of coordinators."""
TRANSACTIONAL_ID = "bank"
GROUP_ID = "readers"
TIMEOUT_MS = 2000
"""The coordinator aborts a transaction after this time."""
READ_COMMITTED = 1
COORDINATOR_MOVES = RETRIABLE | {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.UNSTABLE_OFFSET_COMMIT,
}


class Outcome(enum.Enum):
    """What a transaction's client knows of it."""

    ABORTED = "aborted"
    UNKNOWN = "maybe committed"
    COMMITTED = "committed"


class CoordinatedClient(Client):
    """A client of the coordinator of `key`. `coordinator`: its node id; None: not known."""

    def __init__(self, host: ClientHost, number: int, key: str, key_type: int) -> None:
        super().__init__(host, number)
        self.coordinator: int | None = None
        self._key = key
        self._key_type = key_type

    def ask(self, request: Any, code_of: Callable[[Any], int], done: Callable[[Any, int], None]) -> None:
        """Send a request to the coordinator; `done` gets the response, if any, and its code."""
        if self.coordinator is None:
            self._find(lambda: done(None, ErrorCode.COORDINATOR_NOT_AVAILABLE))
            return

        def answered(response: Any) -> None:
            code = ErrorCode.REQUEST_TIMED_OUT if isinstance(response, PeerError) else code_of(response)
            if code in COORDINATOR_MOVES:
                self.coordinator = None
            done(response, code)

        self.send(self.coordinator, request, answered)

    def _find(self, go_on: Callable[[], None]) -> None:
        def done(response: Any) -> None:
            if not isinstance(response, PeerError) and response.coordinators[0].error_code == ErrorCode.NONE:
                self.coordinator = response.coordinators[0].node_id
            go_on()

        self.send(self.any_node(), FindCoordinatorRequest(key_type=self._key_type, coordinator_keys=[self._key]), done)


class Bank(CoordinatedClient):
    """A transactional producer, which takes from one partition what it gives to another.

    Attributes:
        outcomes: of each transaction, by number.
        keys: of each transaction, by number: the two partitions.
    """

    def __init__(self, host: ClientHost, number: int) -> None:
        super().__init__(host, number, TRANSACTIONAL_ID, TRANSACTION)
        self.outcomes: list[Outcome] = []
        self.keys: list[tuple[Key, Key]] = []
        self._producer: tuple[int, int] | None = None
        self._sequences: dict[Key, int] = {}
        self._unsent: dict[Key, bytes] = {}
        self._is_ending = self._is_beginning = False
        self._life = 0  # rises with each producer epoch; answers to an earlier one are void

    @property
    def is_idle(self) -> bool:
        """Whether no transaction is open, and none is being aborted."""
        return not (self._unsent or self._is_ending or self._is_beginning)

    def transfer(self, source: Key, target: Key, *, commits: bool) -> None:
        """Begin a transaction that will be committed or aborted, unless another one is open."""
        if not self.is_idle:
            return
        if self._producer is None:
            self._begin()
            return
        number = len(self.outcomes)
        self.outcomes.append(Outcome.ABORTED)
        self.keys.append((source, target))
        for key, amount in ((source, -1 - number % 7), (target, 1 + number % 7)):
            self._unsent[key] = self._batch(key, b"%d %d" % (number, amount))
        for key in (source, target):
            self._send(key, number, commits, self._life)

    def _batch(self, key: Key, value: bytes) -> bytes:
        assert self._producer is not None
        producer_id, epoch = self._producer
        sequence = self._sequences.get(key, 0)
        self._sequences[key] = sequence + 1
        builder = BatchBuilder(producer_id=producer_id, epoch=epoch, base_sequence=sequence, transactional=True)
        builder.append(1_700_000_000_000, None, value)
        return bytes(builder.build())

    def _send(self, key: Key, number: int, commits: bool, life: int) -> None:
        if life != self._life:
            return

        def again() -> None:
            self.later(lambda: self._send(key, number, commits, life))

        leader = self.leaders.get(key)
        if leader is None:
            self.find_leader(key, again)
            return

        def answered(response: Any) -> None:
            if life != self._life:
                return
            code = ErrorCode.REQUEST_TIMED_OUT
            if not isinstance(response, PeerError):
                code = response.responses[0].partition_responses[0].error_code
            if code == ErrorCode.NONE:
                del self._unsent[key]
                if not self._unsent:
                    self._is_ending = True
                    self._end(number, commits, life)
            elif code in COORDINATOR_MOVES:
                self.leaders.pop(key, None)
                again()
            else:
                self._begin_again(code)

        data = PartitionProduceData(index=key[1], records=memoryview(self._unsent[key]))
        topics = [TopicProduceData(topic_id=key[0], partition_data=[data])]
        request = ProduceRequest(transactional_id=TRANSACTIONAL_ID, acks=-1, timeout_ms=1500, topic_data=topics)
        self.send(leader[0], request, answered)

    def _end(self, number: int, commits: bool, life: int) -> None:
        if life != self._life:
            return
        assert self._producer is not None
        producer_id, epoch = self._producer
        if commits:
            self.outcomes[number] = Outcome.UNKNOWN

        def done(response: Any, code: int) -> None:
            if life != self._life:
                return
            if code == ErrorCode.NONE:
                if commits:
                    self.outcomes[number] = Outcome.COMMITTED
                self.host.note("ended", self.number, number, self.outcomes[number].value)
                self._is_ending = False
                self._renew(response.producer_id, response.producer_epoch)
            elif code in COORDINATOR_MOVES:
                self.later(lambda: self._end(number, commits, life))
            else:
                self._begin_again(code)

        request = EndTxnRequest(
            transactional_id=TRANSACTIONAL_ID, producer_id=producer_id, producer_epoch=epoch, committed=commits
        )
        self.ask(request, lambda response: int(response.error_code), done)

    def _begin_again(self, code: int) -> None:
        """Give up the transaction: a newer epoch aborts it, unless it was committed."""
        self.host.note("transaction fails", self.number, len(self.outcomes) - 1, code)
        self._unsent.clear()
        self._is_ending = False
        self._begin()

    def _begin(self) -> None:
        self._life += 1
        self._is_beginning = True
        self._producer = None

        def done(response: Any, code: int) -> None:
            if code == ErrorCode.NONE:
                self._is_beginning = False
                self._renew(response.producer_id, response.producer_epoch)
            elif code in COORDINATOR_MOVES:
                self.later(ask)
            else:
                raise InvariantViolated(f"the transactional producer gets error {code} of InitProducerId")

        def ask() -> None:
            request = InitProducerIdRequest(transactional_id=TRANSACTIONAL_ID, transaction_timeout_ms=TIMEOUT_MS)
            self.ask(request, lambda response: int(response.error_code), done)

        ask()

    def _renew(self, producer_id: int, epoch: int) -> None:
        if self._producer != (producer_id, epoch):
            self._producer = producer_id, epoch
            self._sequences.clear()


class BankReader(Client):
    """A read_committed consumer. `seen`: the amounts of each transaction by partition."""

    def __init__(self, host: ClientHost, number: int) -> None:
        super().__init__(host, number)
        self.positions: dict[Key, int] = {}
        self.seen: dict[int, dict[Key, int]] = {}
        self._busy: dict[Key, None] = {}

    def read(self, key: Key) -> None:
        """Fetch a partition once, unless a fetch is under way."""
        if key in self._busy:
            return
        self._busy[key] = None
        leader = self.leaders.get(key)
        if leader is None:
            self.find_leader(key, lambda: self._busy.pop(key))
            return
        partition = FetchPartition(
            partition=key[1],
            current_leader_epoch=leader[1],
            fetch_offset=self.positions.get(key, 0),
            partition_max_bytes=100_000,
        )
        topics = [FetchTopic(topic_id=key[0], partitions=[partition])]
        request = FetchRequest(
            max_wait_ms=FETCH_WAIT_MS, min_bytes=1, max_bytes=100_000, isolation_level=READ_COMMITTED, topics=topics
        )
        self.send(leader[0], request, lambda response: self._answered(key, response))

    def _answered(self, key: Key, response: Any) -> None:
        del self._busy[key]
        if isinstance(response, PeerError):
            self.leaders.pop(key, None)
            return
        for topic in response.responses:
            for data in topic.partitions:
                if data.error_code == ErrorCode.NONE:
                    self._take(key, data)
                else:
                    self.leaders.pop(key, None)

    def _take(self, key: Key, data: Any) -> None:
        begins = sorted((each.first_offset, each.producer_id) for each in data.aborted_transactions or ())
        aborted: set[int] = set()
        for position, header in iter_batches(data.records or b""):
            while begins and begins[0][0] <= header.last_offset:
                aborted.add(begins.pop(0)[1])
            if header.last_offset < self.positions.get(key, 0):
                continue
            self.positions[key] = header.last_offset + 1
            records = list(iter_records(data.records, position))
            if header.is_control:
                if int.from_bytes((records[0].key or b"")[2:4], "big") == ABORT:
                    aborted.discard(header.producer_id)
            elif header.is_transactional and header.producer_id not in aborted:
                for record in records:
                    number, amount = map(int, (record.value or b"").split())
                    if key in self.seen.setdefault(number, {}):
                        raise InvariantViolated(f"a record of transaction {number} is read twice")
                    self.seen[number][key] = amount


def check_bank(bank: Bank, reader: BankReader, histories: Mapping[Key, History]) -> None:
    """Check what a reader of all partitions has seen. Partitions that lost records do not count."""
    for number, outcome in enumerate(bank.outcomes):
        keys = bank.keys[number]
        if any(histories[key].is_over for key in keys):
            continue
        seen = reader.seen.get(number, {})
        legal = {Outcome.ABORTED: (0,), Outcome.UNKNOWN: (0, 2), Outcome.COMMITTED: (2,)}[outcome]
        if len(seen) not in legal or sum(seen.values()) != 0:
            raise InvariantViolated(f"transaction {number} of {keys} is {outcome.value}, and read as {seen}")


class GroupCommitter(CoordinatedClient):
    """Commits offsets of a group, each one higher than the one before, and reads them back.

    Args: log: returns the registration of the partition that holds the offsets; None: it is not
        there yet, or lost records.
    """

    def __init__(self, host: ClientHost, number: int, log: Callable[[], PartitionRegistration | None]) -> None:
        super().__init__(host, number, GROUP_ID, GROUP)
        self.sent = -1
        self.confirmed = -1
        self.is_checked = True
        self._log = log
        self._busy = False

    def commit(self, name: str, key: Key) -> None:
        """Commit the next offset of a partition, which is the same one at each call."""
        if self._busy:
            return
        self._busy = True
        self.sent += 1
        offset = self.sent

        def done(response: Any, code: int) -> None:
            self._busy = False
            if code == ErrorCode.NONE:
                self.confirmed = offset
                self.is_checked = False
                self.host.note("offset committed", self.number, offset)
            elif code not in COORDINATOR_MOVES:
                raise InvariantViolated(f"the group gets error {code} of OffsetCommit")

        partition = OffsetCommitRequestPartition(
            partition_index=key[1], committed_offset=offset, committed_metadata=None
        )
        topic = OffsetCommitRequestTopic(name=name, topic_id=key[0], partitions=[partition])
        request = OffsetCommitRequest(group_id=GROUP_ID, topics=[topic])
        self.ask(request, lambda response: int(response.topics[0].partitions[0].error_code), done)

    def check(self, name: str, key: Key) -> None:
        """Read the offset back: it must not be older than what was confirmed before."""
        if self._busy:
            return
        self._busy = True
        least, before = self.confirmed, self._log()
        coordinator = self.coordinator

        def done(response: Any, code: int) -> None:
            self._busy = False
            after = self._log()
            if code != ErrorCode.NONE or before is None or after is None:
                return
            if before.leader_epoch != after.leader_epoch or after.leader != coordinator:
                return  # by one that does not know yet that it coordinates no more
            offset = response.groups[0].topics[0].partitions[0].committed_offset
            if not least <= offset <= self.sent:
                raise InvariantViolated(f"the group's offset is {offset}; {least} was confirmed, {self.sent} was sent")
            if least == self.confirmed:
                self.is_checked = True

        topics = [OffsetFetchRequestTopics(name=name, topic_id=key[0], partition_indexes=[key[1]])]
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP_ID, topics=topics)])
        self.ask(request, _code_of_fetch, done)


def _code_of_fetch(response: Any) -> int:
    group = response.groups[0]
    return int(group.error_code or group.topics[0].partitions[0].error_code)
