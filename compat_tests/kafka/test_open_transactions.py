"""Transactions that begin on one broker and end on the other, in one data folder.

The brokers listen on the same port in turn, so that a producer goes on where its broker changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest
from confluent_kafka import KafkaException

from compat_tests.kafka import clients
from compat_tests.kafka.clients import START_MS
from compat_tests.kafka.jvm import ToolFailed
from compat_tests.kafka.node import Kafka
from compat_tests.kafka.serving import Process, on_partition, serving
from compat_tests.kafka.tool_host import ToolHost
from compat_tests.kafka.transactional import TIMEOUT_MS, Java, Librdkafka, TransactionalProducer
from compat_tests.waits import eventually_equal
from kqueue.broker.replicas.partition import Partition
from kqueue.records.batch import iter_batches, iter_records, read_header
from kqueue.records.builder import build_batch
from kqueue.records.record import Record

pytestmark = pytest.mark.skipif(
    find_spec("kqueue.api.handlers.txn_offset_commit") is None, reason="TxnOffsetCommit is not served yet"
)
STATE = "__transaction_state"
SETTINGS = {
    "transaction.state.log.num.partitions": 2,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
}
PREPARE_COMMIT, PREPARE_ABORT = 2, 3
SHORT_MS = 2_000
KINDS = ("v1", "v2")
COMMITTED = "what read_committed consumers read: no more than is decided"
ENDS = {True: "commit", False: "abort"}


@contextmanager
def kafka_turn(node: Kafka, *, kill: bool = False) -> Iterator[str]:
    node.settings = {**node.settings, **SETTINGS}
    with node:
        yield node.bootstrap
        if kill:
            node.kill()


@contextmanager
def kqueue_turn(node: Kafka, *, kill: bool = False) -> Iterator[str]:
    own = {**{name.replace(".", "_"): value for name, value in SETTINGS.items()}}
    listener = f"PLAINTEXT://127.0.0.1:{node.ports[0]}"
    if kill:
        with Process(node.data, node.place / "kqueue.log", listeners=listener, **own) as process:
            yield process.bootstrap
            process.kill()
    else:
        with serving(node.data, listeners=listener, **own) as broker:
            yield broker.bootstrap


TURNS = {"Kafka": kafka_turn, "kqueue": kqueue_turn}


class Scenario:
    """The producers of one kind, each with a topic of its own, and what has to be seen of them."""

    def __init__(self, kind: str, make: Callable[[str, str, int], TransactionalProducer]) -> None:
        self._kind = kind
        self._make = make
        self._producers: dict[str, TransactionalProducer] = {}
        self.expected: dict[str, list[bytes]] = {}
        self.offsets: dict[str, int] = {}
        self.topics = [self.topic(name) for name in ("commit", "abort", "left", "late", "moved", "source")]

    def topic(self, name: str) -> str:
        return f"{name}-{self._kind}"

    def create(self, bootstrap: str) -> None:
        """Everything that has to be in Kafka's metadata, and the coordinators' topics."""
        for topic in self.topics:
            clients.create_topic(bootstrap, topic)
        self._add(bootstrap, "first")
        clients.commit(bootstrap, self.topic("group"), {(self.topic("source"), 0): 1})

    def _add(self, bootstrap: str, name: str, timeout_ms: int = TIMEOUT_MS) -> TransactionalProducer:
        made = self._producers[name] = self._make(bootstrap, f"{name}-{self._kind}", timeout_ms)
        return made

    def open(self, bootstrap: str, *, late: bool) -> None:
        """Begin the transactions on the first broker; `late`: one that times out, too."""
        for name in ("commit", "abort", "left", "late")[: 4 if late else 3]:
            producer = self._add(bootstrap, name, SHORT_MS if name == "late" else TIMEOUT_MS)
            producer.begin()
            producer.send(self.topic(name), [b"begun"])
            if name in ENDS.values():
                producer.offset(self.topic(f"group-{name}"), self.topic("source"), 7)
        moved = self._add(bootstrap, "moved")
        moved.begin()
        moved.send(self.topic("moved"), [b"whole"])
        moved.end(commit=True)
        self.expected = {self.topic("moved"): [b"whole"]}
        self.seen(bootstrap)  # its markers are written before the broker ends

    def finish(self, bootstrap: str) -> None:
        """End them on the second broker, and make the next."""
        for commit, name in ENDS.items():
            producer = self._producers[name]
            producer.send(self.topic(name), [b"more"])
            producer.end(commit=commit)
            producer.begin()
            producer.send(self.topic(name), [b"next"])
            producer.end(commit=True)
            self.expected[self.topic(name)] = [b"begun", b"more", b"next"] if commit else [b"next"]
            self.offsets[self.topic(f"group-{name}")] = 7 if commit else -1
        before = self._producers["left"]
        after = self._add(bootstrap, "left")
        after.begin()
        after.send(self.topic("left"), [b"successor"])
        with pytest.raises((KafkaException, ToolFailed, AssertionError)):
            before.end(commit=True)
        after.end(commit=True)
        self.expected[self.topic("left")] = [b"successor"]
        clients.write(bootstrap, self.topic("late"), [clients.Sent(b"behind it")])
        self.expected[self.topic("late")] = [b"behind it"]

    def seen(self, bootstrap: str) -> None:
        """Check what read_committed consumers and groups find, once the markers are written."""
        eventually_equal(lambda: committed_values(bootstrap, self.expected), self.expected, COMMITTED)
        offsets = {
            group: clients.committed(bootstrap, group, [(self.topic("source"), 0)]).get((self.topic("source"), 0), -1)
            for group in self.offsets
        }
        assert offsets == self.offsets


def committed_values(bootstrap: str, topics: dict[str, list[bytes]]) -> dict[str, list[bytes | None]]:
    rows = clients.read(bootstrap, topics, committed=True)
    return {topic: [row.value for row in topic_rows] for topic, topic_rows in rows.items()}


@pytest.fixture
def scenarios(tools: ToolHost) -> list[Scenario]:
    return [
        Scenario("v1", Librdkafka),
        Scenario("v2", lambda *words: Java(tools, *words)),
    ]


@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
@pytest.mark.parametrize(("first", "second"), [("Kafka", "kqueue"), ("kqueue", "Kafka")])
def test_begun_on_one_and_ended_on_the_other(
    kafka: Kafka, scenarios: list[Scenario], first: str, second: str, kill: bool
) -> None:
    """After a kill Kafka takes partitions that have no leader yet for deleted ones, and leaves
    their transactions open if they are decided then (its log: "likely deleted already and hence can
    be skipped"). So nothing is decided around a kill here.
    """
    with ExitStack() as stack:
        bootstrap = stack.enter_context(kafka_turn(kafka))
        for scenario in scenarios:
            scenario.create(bootstrap)
        if first != "Kafka":
            stack.close()
        bootstrap = stack.enter_context(TURNS[first](kafka, kill=kill)) if first != "Kafka" else bootstrap
        for scenario in scenarios:
            scenario.open(bootstrap, late=not kill)
        if first == "Kafka" and kill:
            kafka.kill()
    with TURNS[second](kafka) as bootstrap:
        for scenario in scenarios:
            scenario.finish(bootstrap)
        for scenario in scenarios:
            scenario.seen(bootstrap)
    with TURNS[first](kafka) as bootstrap:
        for scenario in scenarios:
            scenario.seen(bootstrap)
    assert kafka.complaints() == []


def prepare(partition: Partition, transactional_id: bytes, status: int) -> bool:
    """Append what a coordinator writes before it writes markers: the state of the transaction with
    another status, and with the next epoch if it is of transactions V2. False: the transactional id
    is not in this partition.
    """
    last: bytes | None = None
    data = partition.log.read(partition.log.start_offset, 1 << 24, end_offset=partition.log.end_offset).read()
    for position, header in iter_batches(data):
        if not header.is_control:
            for record in iter_records(data, position):
                if record.key is not None and transactional_id in record.key:
                    last = record.value
    if last is None:
        return False
    value = bytearray(last)
    value[16] = status
    if transactional_id.endswith(b"v2"):
        value[10:12] = (int.from_bytes(value[10:12]) + 1).to_bytes(2)
    key = bytes(2) + len(transactional_id).to_bytes(2) + transactional_id
    batch = build_batch([Record(0, START_MS, key, bytes(value), [])])
    partition.append(memoryview(batch), read_header(batch), client=False)
    return True


@pytest.mark.parametrize(("first", "second"), [("Kafka", "kqueue"), ("kqueue", "Kafka")])
def test_markers_that_are_missing_are_written(
    kafka: Kafka, tools: ToolHost, tmp_path: Path, first: str, second: str
) -> None:
    """A broker ended after it had decided a transaction, before it wrote the markers."""
    makers: dict[str, Callable[[str, str, int], TransactionalProducer]] = {
        "v1": Librdkafka,
        "v2": lambda *words: Java(tools, *words),
    }
    names = [f"{end}-{kind}" for end in ENDS.values() for kind in KINDS]
    with ExitStack() as stack:
        bootstrap = stack.enter_context(kafka_turn(kafka))
        clients.create_topic(bootstrap, "source")
        for name in names:
            clients.create_topic(bootstrap, name)
        if first != "Kafka":
            makers["v1"](bootstrap, "first", TIMEOUT_MS)
            clients.commit(bootstrap, "group", {("source", 0): 1})
            stack.close()
            bootstrap = stack.enter_context(kqueue_turn(kafka))
        for name in names:
            producer = makers[name[-2:]](bootstrap, name, TIMEOUT_MS)
            producer.begin()
            producer.send(name, [b"decided"])
            producer.offset(name, "source", 7)
    with serving(kafka.data, transaction_state_log_num_partitions=2) as broker:
        for name in names:
            status = PREPARE_COMMIT if name.startswith("commit") else PREPARE_ABORT
            done = [
                on_partition(broker, STATE, index, lambda part: prepare(part, name.encode(), status))  # noqa: B023
                for index in range(2)
            ]
            assert sorted(done) == [False, True]
    expected = {name: [b"decided"] if name.startswith("commit") else [] for name in names}
    offsets = {name: {("source", 0): 7} if name.startswith("commit") else {} for name in names}
    for kind in (second, first):
        with TURNS[kind](kafka) as bootstrap:
            eventually_equal(lambda: committed_values(bootstrap, expected), expected, COMMITTED)
            assert {name: clients.committed(bootstrap, name, [("source", 0)]) for name in names} == offsets
            for name in names:  # nothing is open, and a producer goes on
                producer = makers[name[-2:]](bootstrap, name, TIMEOUT_MS)
                producer.begin()
                producer.send(name, [b"later"])
                producer.end(commit=True)
                expected[name] = [*expected[name], b"later"]
            eventually_equal(lambda: committed_values(bootstrap, expected), expected, COMMITTED)
    assert kafka.complaints() == []
