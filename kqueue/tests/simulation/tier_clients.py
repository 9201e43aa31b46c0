"""Clients of clusters with tiered topics: they read old records, and write to logs that have lost
some.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from kqueue.broker.replicas.partition import Partition
from kqueue.interbroker.errors import PeerError
from kqueue.records.batch import iter_batches
from kqueue.tests.simulation.cluster_invariants import History, Key
from kqueue.tests.simulation.replication_world import InvariantViolated
from kqueue.tests.simulation.simulated_clients import (
    FETCH_WAIT_MS,
    RETRIABLE,
    Client,
    ClientHost,
    Consumer,
    Producer,
    Sending,
)
from kqueue.tests.simulation.simulated_coordination import BankReader
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic

TIER_RETRIABLE = RETRIABLE | {ErrorCode.CORRUPT_MESSAGE}
"""Bytes that were damaged on their way twice, one time after the other, are read again later."""


class EveryLogProducer(Producer):
    """A producer that goes on where records were lost.

    Attributes: confirmed: of each partition, when a batch was confirmed last, in ms.
    """

    def __init__(self, host: ClientHost, number: int, acks: int) -> None:
        super().__init__(host, number, acks)
        self.confirmed: dict[Key, float] = {}

    def _answered(self, sending: Sending, leader: int, response: Any) -> None:
        before = self.confirmed.get(sending.key)
        super()._answered(sending, leader, response)
        if self.confirmed.get(sending.key) == before:
            self.leaders.pop(sending.key, None)  # the next batch asks who leads

    def _confirmed(self, sending: Sending, base_offset: int) -> None:
        super()._confirmed(sending, base_offset)
        self.confirmed[sending.key] = self.host.queue.now_ms

    def _is_over(self, sending: Sending) -> bool:
        if self.host.invariants.histories[sending.key].is_deleted:
            self.sending.pop(sending.key, None)
            return True
        return False


class TierConsumer(Consumer):
    """A consumer that begins again at the log start where its position is below.

    Args: start_known: returns the highest log start that a broker may show.
    """

    def __init__(self, host: ClientHost, number: int, start_known: Callable[[Key], int]) -> None:
        super().__init__(host, number)
        self._start_known = start_known

    def _answered(self, key: Key, response: Any) -> None:
        history = self.host.invariants.histories[key]
        if not isinstance(response, PeerError) and not history.is_over:
            for topic in response.responses:
                for data in topic.partitions:
                    if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                        self._begin_at_start(key, history)
                        data.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
                    elif data.error_code == ErrorCode.CORRUPT_MESSAGE:
                        data.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        super()._answered(key, response)

    def begin_again(self, key: Key) -> None:
        """Read from offset 0 on, in the tier, unless a fetch is under way."""
        if key not in self._busy:
            self.positions[key] = 0

    def _begin_at_start(self, key: Key, history: History) -> None:
        position, known = self.positions.get(key, 0), self._start_known(key)
        if position >= known:
            raise InvariantViolated(
                f"{history.name}: offset {position} is out of range, {history.end} are committed, the log starts at "
                f"{known} at most"
            )
        self.positions[key] = known

    def _take(self, key: Key, history: History, records: Any) -> None:
        position = self.positions.get(key, 0)
        for _, header in iter_batches(records or b""):
            batch = history.committed.get(header.base_offset)
            if header.last_offset < position:
                continue
            if batch is None or (batch.crc, batch.leader_epoch) != (header.crc, header.leader_epoch):
                raise InvariantViolated(f"{history.name}: consumer {self.number} reads {header}, committed is {batch}")
            if header.base_offset > position:
                raise InvariantViolated(f"{history.name}: offset {header.base_offset} comes after {position - 1}")
            position = header.last_offset + 1
        if position != self.positions.get(key, 0):
            self.positions[key] = position
            self.host.note("read", self.number, history.name, position)


class LineageReader(Client):
    """Reads logs that have lost records, from any offset on: what a leader answers must be
    of the leader epochs of its log, whatever the tier still has of another one.

    Args: replica_of: returns a broker's replica of a partition; None: it has none.
    """

    def __init__(self, host: ClientHost, number: int, replica_of: Callable[[Key, int], Partition | None]) -> None:
        super().__init__(host, number)
        self._replica_of = replica_of
        self._positions: dict[Key, int] = {}
        self._busy: dict[Key, None] = {}

    def read(self, key: Key) -> None:
        """Fetch a partition once, unless a fetch is under way."""
        if key in self._busy:
            return
        self._busy[key] = None
        leader = self.leaders.pop(key, None)
        partition = None if leader is None else self._replica_of(key, leader[0])
        if leader is None or partition is None or not partition.is_open:
            self.find_leader(key, lambda: self._busy.pop(key))
            return
        log = partition.log
        position = self._positions.get(key)
        if position is None:
            position = log.start_offset + int(self.host.rng.random() * (log.end_offset - log.start_offset))
            self._positions[key] = position
        wanted = FetchPartition(
            partition=key[1], current_leader_epoch=leader[1], fetch_offset=position, partition_max_bytes=2000
        )
        topics = [FetchTopic(topic_id=key[0], partitions=[wanted])]
        request = FetchRequest(max_wait_ms=FETCH_WAIT_MS, min_bytes=1, max_bytes=10_000, topics=topics)
        self.send(leader[0], request, lambda response: self._answered(key, *leader, response))

    def _answered(self, key: Key, node: int, epoch: int, response: Any) -> None:
        del self._busy[key]
        data = None if isinstance(response, PeerError) or not response.responses else response.responses[0]
        data = None if data is None else data.partitions[0]
        if data is None or data.error_code:
            self._positions.pop(key, None)
            return
        self.leaders[key] = (node, epoch)
        partition = self._replica_of(key, node)
        if data.records:  # else it is being read: the next fetch gets it
            del self._positions[key]
        if partition is None or not partition.is_open or partition.leader_epoch != epoch or not partition.is_leader:
            return
        log = partition.log
        for _, header in iter_batches(data.records or b""):
            expected = log.epochs.epoch_at(header.base_offset)
            if header.base_offset >= log.start_offset and header.leader_epoch != expected:
                name = self.host.invariants.histories[key].name
                raise InvariantViolated(f"{name}: broker {node} serves {header}, its log has epoch {expected} there")


class TierBankReader(BankReader):
    """Reads late, when most of what it reads is in the tier. reads: how often, from 0 to 1."""

    reads = 0.1

    def read(self, key: Key) -> None:
        if self.host.rng.random() < self.reads:
            super().read(key)


class SweptBatch(NamedTuple):
    """A batch that was read."""

    base_offset: int
    crc: int
    leader_epoch: int


class LogSweep(Client):
    """Reads one log from `start` to `end`, without a pause.

    Args: start_known: as of `TierConsumer`; retention may go on meanwhile.
    Attributes: batches: all that were read. skipped_to: the last log start that it went on at.
    """

    def __init__(
        self, host: ClientHost, number: int, key: Key, start: int, end: int, start_known: Callable[[Key], int]
    ) -> None:
        super().__init__(host, number)
        self._start_known = start_known
        self.batches: list[SweptBatch] = []
        self.skipped_to = 0
        self._key = key
        self._position = start
        self._end = end

    @property
    def is_done(self) -> bool:
        """Whether the end is reached."""
        return self._position >= self._end

    def go_on(self) -> None:
        """Fetch what comes next."""
        key = self._key
        if self.is_done:
            return
        leader = self.leaders.get(key)
        if leader is None:
            self.find_leader(key, lambda: self.later(self.go_on))
            return
        partition = FetchPartition(
            partition=key[1], current_leader_epoch=leader[1], fetch_offset=self._position, partition_max_bytes=2000
        )
        topics = [FetchTopic(topic_id=key[0], partitions=[partition])]
        request = FetchRequest(max_wait_ms=FETCH_WAIT_MS, min_bytes=1, max_bytes=10_000, topics=topics)
        self.send(leader[0], request, self._answered)

    def _answered(self, response: Any) -> None:
        if isinstance(response, PeerError):
            self.leaders.pop(self._key, None)
            self.later(self.go_on)
            return
        data = response.responses[0].partitions[0] if response.responses else None
        if data is not None and data.error_code:
            start = self._start_known(self._key)
            if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and self._position < start:
                self._position = self.skipped_to = start
            elif data.error_code not in TIER_RETRIABLE:
                name = self.host.invariants.histories[self._key].name
                raise InvariantViolated(f"{name}: offset {self._position} gets error {data.error_code} at the end")
            self.leaders.pop(self._key, None)
            self.later(self.go_on)
            return
        for _, header in iter_batches((data.records if data is not None else None) or b""):
            if header.last_offset >= self._position:
                self.batches.append(SweptBatch(header.base_offset, header.crc, header.leader_epoch))
                self._position = header.last_offset + 1
        self.go_on()
