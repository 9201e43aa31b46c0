"""Clients of a simulated cluster: producers, consumers, and who creates and changes topics.

They talk to the brokers through bytes, find leaders by Metadata, and repeat what failed, as real
clients do. A producer has one batch per partition under way, with its sequence number.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from kqueue.interbroker.errors import PeerError, PeerTimedOut, PeerUnavailable
from kqueue.network.peer_request import PeerRequest
from kqueue.records.batch import iter_batches
from kqueue.records.builder import BatchBuilder
from kqueue.tests.simulation.cluster_invariants import ClusterInvariants, History, Key
from kqueue.tests.simulation.event_queue import EventQueue
from kqueue.tests.simulation.replication_world import InvariantViolated
from kqueue.tests.simulation.simulated_broker import BrokerProcess
from kqueue.tests.simulation.simulated_network import Link, Network, finish
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kqueue.wire.messages.init_producer_id import InitProducerIdRequest
from kqueue.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kqueue.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

REQUEST_TIMEOUT_MS = 3000.0
RETRY_MS = 60.0
FETCH_WAIT_MS = 100
NO_ID = bytes(16)
RETRIABLE = frozenset(
    {
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    }
)


class ClientHost(Protocol):
    """The objects that the clients of a simulation share."""

    queue: EventQueue
    network: Network
    rng: random.Random
    invariants: ClusterInvariants

    def process_of(self, node: int) -> BrokerProcess | None:
        """Return the process of a broker that runs."""

    @property
    def node_ids(self) -> list[int]:
        """The brokers that clients know."""

    def note(self, what: str, node: int, *details: object) -> None:
        """Pass a line to the trace."""


class Client:
    """An end of connections to all brokers.

    Attributes: leaders: as the last Metadata said.
    """

    def __init__(self, host: ClientHost, number: int) -> None:
        self.number = -number
        self.host = host
        self.leaders: dict[Key, tuple[int, int]] = {}
        self._links: dict[int, Link] = {}

    def execute(self, call: Callable[[], object]) -> None:
        """See `End`."""
        call()

    def send(self, node: int, request: Any, done: Callable[[Any], None]) -> None:
        """Send a request to a broker; `done` gets the response, or a PeerError."""
        pending = PeerRequest(request, done, 0.0)
        host = self.host
        link = self._links.get(node)
        if link is None or not link.is_open:
            process = host.process_of(node)
            if process is None:
                delay_ms = host.network.delay_ms()
                host.queue.after(delay_ms, lambda: finish(pending, PeerUnavailable("the broker does not run")))
                return
            link = self._links[node] = host.network.open(self, process)
        opened = link

        def late() -> None:
            if pending.pending:
                opened.lose()
                finish(pending, PeerTimedOut("no response in time", sent=True))

        host.queue.after(REQUEST_TIMEOUT_MS, late)
        link.send(pending)

    def later(self, call: Callable[[], None]) -> None:
        """Call after a pause, as before a repetition."""
        self.host.queue.after(RETRY_MS * (0.5 + self.host.rng.random()), call)

    def any_node(self) -> int:
        """Return one of the brokers."""
        nodes = self.host.node_ids
        return nodes[int(self.host.rng.random() * len(nodes))]

    def find_leader(self, key: Key, go_on: Callable[[], None]) -> None:
        """Ask a broker who leads a partition; then call `found`, also if there was no answer."""

        def done(response: Any) -> None:
            for topic in [] if isinstance(response, PeerError) else response.topics:
                for each in topic.partitions:
                    if each.leader_id >= 0:
                        self.leaders[topic.topic_id, each.partition_index] = (each.leader_id, each.leader_epoch)
            go_on()

        topics = [MetadataRequestTopic(topic_id=key[0], name=None)]
        self.send(self.any_node(), MetadataRequest(topics=topics, allow_auto_topic_creation=False), done)


class Sending(NamedTuple):
    """A batch under way."""

    key: Key
    frame: bytes
    crc: int


class Producer(Client):
    """Sends batches to partitions.

    Args:
        acks: -1: idempotent, each batch is sent until it is confirmed; 1: once.

    Attributes:
        producer_id: -1: it has none yet.
        sending: the batch under way of each partition.
        acknowledged: confirmed batches of each partition by base offset, with their CRC.
    """

    def __init__(self, host: ClientHost, number: int, acks: int) -> None:
        super().__init__(host, number)
        self.acks = acks
        self.producer_id = -1
        self.sending: dict[Key, Sending] = {}
        self.acknowledged: dict[Key, dict[int, int]] = {}
        self._sequences: dict[Key, int] = {}
        self._asking = False
        self._records = 0

    def produce(self, key: Key) -> None:
        """Begin to send a batch to a partition, if none is under way."""
        if key in self.sending:
            return
        if self.acks == -1 and self.producer_id < 0:
            self._ask_for_id()
            return
        count = 1 + int(self.host.rng.random() * 3)
        sequence = self._sequences.get(key, 0)
        builder = (
            BatchBuilder(producer_id=self.producer_id, epoch=0, base_sequence=sequence)
            if self.acks == -1
            else BatchBuilder()
        )
        for _ in range(count):
            self._records += 1
            builder.append(1_700_000_000_000 + self._records, None, b"%d of %d" % (self._records, self.number))
        frame = bytes(builder.build())
        self._sequences[key] = sequence + count
        self.sending[key] = Sending(key, frame, next(iter_batches(frame))[1].crc)
        self._send(self.sending[key])

    def _ask_for_id(self) -> None:
        if self._asking:
            return
        self._asking = True

        def done(response: Any) -> None:
            self._asking = False
            if not isinstance(response, PeerError) and response.error_code == ErrorCode.NONE:
                self.producer_id = response.producer_id

        self.send(self.any_node(), InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000), done)

    def _send(self, sending: Sending) -> None:
        leader = self.leaders.get(sending.key)
        if self._is_over(sending):
            return
        if leader is None:
            self.find_leader(sending.key, lambda: self.later(lambda: self._send(sending)))
            return
        (topic_id, index) = sending.key
        data = PartitionProduceData(index=index, records=memoryview(sending.frame))
        topics = [TopicProduceData(topic_id=topic_id, partition_data=[data])]
        request = ProduceRequest(transactional_id=None, acks=self.acks, timeout_ms=1500, topic_data=topics)
        self.send(leader[0], request, lambda response: self._answered(sending, leader[0], response))

    def _is_over(self, sending: Sending) -> bool:
        """Give up a batch whose topic is deleted, or whose partition lost records."""
        if self.host.invariants.histories[sending.key].is_over:
            self.sending.pop(sending.key, None)
            return True
        return False

    def _answered(self, sending: Sending, leader: int, response: Any) -> None:
        key = sending.key
        if self._is_over(sending):
            return
        history = self.host.invariants.histories[key]
        if isinstance(response, PeerError):
            code = ErrorCode.REQUEST_TIMED_OUT
        else:
            answer = response.responses[0].partition_responses[0]
            code = answer.error_code
            if code == ErrorCode.NONE:
                self._confirmed(sending, answer.base_offset)
                return
        # one that does not know yet that another broker leads misses what the other one confirmed
        is_deposed = code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and leader != history.registration.leader
        if code not in RETRIABLE and not is_deposed:
            raise InvariantViolated(f"producer {self.number} gets error {code} of {history.name}")
        self.host.note("repeat", self.number, history.name, code)
        if self.acks != -1:
            del self.sending[key]
            return
        self.leaders.pop(key, None)
        self.find_leader(key, lambda: self.later(lambda: self._send(sending)))

    def _confirmed(self, sending: Sending, base_offset: int) -> None:
        key = sending.key
        history = self.host.invariants.histories[key]
        del self.sending[key]
        self.host.note("confirmed", self.number, history.name, base_offset, self.acks)
        if self.acks != -1:
            return
        confirmed = history.committed.get(base_offset)
        if confirmed is None or confirmed.crc != sending.crc:
            raise InvariantViolated(
                f"{history.name}: confirmed at offset {base_offset} of {history.end}, there is {confirmed}"
            )
        self.acknowledged.setdefault(key, {})[base_offset] = sending.crc


class Consumer(Client):
    """Reads partitions from their leaders, and compares with what is committed.

    Attributes: positions: next offset of each partition.
    """

    def __init__(self, host: ClientHost, number: int) -> None:
        super().__init__(host, number)
        self.positions: dict[Key, int] = {}
        self._busy: dict[Key, None] = {}

    def read(self, key: Key) -> None:
        """Fetch a partition once, unless a fetch is under way."""
        if key in self._busy:
            return
        leader = self.leaders.get(key)
        self._busy[key] = None
        if leader is None:
            self.find_leader(key, lambda: self._busy.pop(key))
            return
        partition = FetchPartition(
            partition=key[1],
            current_leader_epoch=leader[1],
            fetch_offset=self.positions.get(key, 0),
            partition_max_bytes=1000,
        )
        topics = [FetchTopic(topic_id=key[0], partitions=[partition])]
        request = FetchRequest(max_wait_ms=FETCH_WAIT_MS, min_bytes=1, max_bytes=10_000, topics=topics)
        self.send(leader[0], request, lambda response: self._answered(key, response))

    def _answered(self, key: Key, response: Any) -> None:
        del self._busy[key]
        history = self.host.invariants.histories[key]
        if history.is_over:
            return
        if isinstance(response, PeerError):
            self.leaders.pop(key, None)
            return
        for topic in response.responses:
            for data in topic.partitions:
                if data.error_code == ErrorCode.NONE:
                    self._take(key, history, data.records)
                elif data.error_code in RETRIABLE:
                    self.leaders.pop(key, None)
                else:
                    raise InvariantViolated(f"consumer {self.number} gets error {data.error_code} of {history.name}")

    def _take(self, key: Key, history: History, records: Any) -> None:
        position = self.positions.get(key, 0)
        for _, header in iter_batches(records or b""):
            batch = history.committed.get(header.base_offset)
            if header.last_offset < position:
                continue
            if batch is None or (batch.crc, batch.leader_epoch) != (header.crc, header.leader_epoch):
                raise InvariantViolated(f"{history.name}: consumer {self.number} reads {header}, committed is {batch}")
            if header.base_offset != position:
                raise InvariantViolated(f"{history.name}: offset {header.base_offset} comes after {position - 1}")
            position = header.last_offset + 1
        if position != self.positions.get(key, 0):
            self.positions[key] = position
            self.host.note("read", self.number, history.name, position)


def check_delivered(producers: list[Producer], histories: Mapping[Key, History]) -> None:
    """Check that each confirmed batch is committed once, in the order of its producer."""
    ids = {producer.producer_id for producer in producers if producer.producer_id >= 0}
    for key, history in histories.items():
        if history.is_over:
            continue
        next_sequence: dict[int, int] = {}
        last_offset = -1
        for offset in sorted(history.committed):
            batch = history.committed[offset]
            if offset != last_offset + 1:
                raise InvariantViolated(f"{history.name}: offset {offset} comes after {last_offset}")
            last_offset = batch.last_offset
            if batch.producer_id in ids:
                expected = next_sequence.get(batch.producer_id, 0)
                if batch.base_sequence != expected:
                    raise InvariantViolated(
                        f"{history.name}: sequence {batch.base_sequence} of producer {batch.producer_id} at offset "
                        f"{offset}, expected {expected}"
                    )
                next_sequence[batch.producer_id] = expected + batch.last_offset - batch.base_offset + 1
        for producer in producers:
            for offset, crc in producer.acknowledged.get(key, {}).items():
                if history.committed[offset].crc != crc:
                    raise InvariantViolated(f"{history.name}: the confirmed batch at offset {offset} is another")
