"""The test kit: what a broker costs a run of tests, what it adds to a test of one record, and how
long it takes to let time pass.
"""

from __future__ import annotations

import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

from kafka import KafkaConsumer, KafkaProducer

import kqueue
from benchmarks import suite
from benchmarks.replay import Answers, Replay, record
from benchmarks.results import Figure, Row

ROUNDS = 15
START_ROUNDS = 5
START_MS_MAX = 150
CLUSTER_START_MS_MAX, SNAPSHOT_START_MS_MAX = 500, 300
HELP_CPU_MS_MAX = 100
IMPORT_CPU_MS_MAX = 100
UNAVAILABLE_MS_MAX = 2000
SNAPSHOT_RECORDS = 4000
OVERHEAD_MS_MAX = 50
PUSH_MS_MAX = {"memory": 1000, "disk": 2000}
ADVANCED_TOPICS, ADVANCED_PARTITIONS = 10, 4
TOPIC = "one-record"
_START = """
import time, pytest, _pytest.config, _pytest.logging, _pytest.fixtures
began = time.perf_counter()
from kqueue import Broker
broker = Broker().start()
print(time.perf_counter() - began)
broker.stop()
"""


def one_record(bootstrap: str, topic: str) -> None:
    """Produce and consume a record with kafka-python."""
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    producer.send(topic, b"two coffees").get(10)
    producer.close()
    consumer = KafkaConsumer(topic, bootstrap_servers=bootstrap, group_id="test", auto_offset_reset="earliest")
    assert next(consumer).value == b"two coffees"
    consumer.close()


def start() -> Row:
    starts_ms = []
    for _ in range(START_ROUNDS):
        printed = subprocess.run(
            [sys.executable, "-c", _START], capture_output=True, text=True, check=True, timeout=60
        ).stdout
        starts_ms.append(float(printed) * 1000)
    figure = Figure(statistics.median(starts_ms), "ms", at_most=START_MS_MAX)
    return Row(
        "the first kafka_broker of a test run", [figure], "import and start, in a process that has imported pytest"
    )


def further_starts() -> Row:
    """The least of some rounds: the first imports what they need."""
    with tempfile.TemporaryDirectory() as folder:
        with kqueue.Broker() as broker:
            broker.create_topic("orders", 4)
            broker.topics["orders"].produce_all([b"%04d" % number + bytes(1000) for number in range(SNAPSHOT_RECORDS)])
            broker.snapshot(folder)
        figures = [
            Figure(_least_start_ms(kqueue.Broker), "ms, a broker", at_most=START_MS_MAX),
            Figure(
                _least_start_ms(lambda: kqueue.Cluster(brokers=3)), "ms, three brokers", at_most=CLUSTER_START_MS_MAX
            ),
            Figure(
                _least_start_ms(lambda: kqueue.Broker(snapshot=folder)),
                "ms, from a snapshot of 4 MB",
                at_most=SNAPSHOT_START_MS_MAX,
            ),
        ]
    return Row("a further start in the process", figures)


def help_text() -> Row:
    """What ``kqueue --help`` and `import kqueue` take of a processor: neither imports a command."""
    figures = [
        Figure(_least_cpu_ms("-m", "kqueue.cli", "--help"), "ms of a processor", at_most=HELP_CPU_MS_MAX),
        Figure(_least_cpu_ms("-c", "import kqueue"), "ms, import kqueue", at_most=IMPORT_CPU_MS_MAX),
        Figure(_least_cpu_ms("-c", "pass"), "ms, Python alone"),
    ]
    return Row("kqueue --help", figures)


def _least_cpu_ms(*arguments: str) -> float:
    cpu_ms = []
    for _ in range(START_ROUNDS):
        with subprocess.Popen([sys.executable, *arguments], stdout=subprocess.DEVNULL) as process:
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0
        cpu_ms.append((used.ru_utime + used.ru_stime) * 1000)
    return min(cpu_ms)


def failover() -> Row:
    """How long a producer has no confirmation when the leader of its partition is killed."""
    longest_ms = 0.0
    with kqueue.Cluster(brokers=3) as cluster:
        cluster.create_topic(TOPIC, replicas={0: [0, 1, 2]})
        with KafkaProducer(
            bootstrap_servers=cluster.bootstrap, acks="all", request_timeout_ms=1000, retry_backoff_ms=20
        ) as producer:
            producer.send(TOPIC, b"first").get(60)
            cluster.kill(0)
            for number in range(20):
                began = time.perf_counter()
                producer.send(TOPIC, b"%d" % number).get(60)
                longest_ms = max(longest_ms, (time.perf_counter() - began) * 1000)
    return Row("a leader is killed", [Figure(longest_ms, "ms without confirmations", at_most=UNAVAILABLE_MS_MAX)])


def overhead() -> Row:
    answers = _recorded()
    alone_ms = [_alone_ms(answers) for _ in range(ROUNDS)]
    with kqueue.Broker() as broker:
        whole_ms = [_whole_ms(broker, f"one-{number:06}") for number in range(ROUNDS)]
    alone, whole = statistics.median(alone_ms), statistics.median(whole_ms)
    figures = [
        Figure(whole - alone, "ms more", at_most=OVERHEAD_MS_MAX),
        Figure(whole, "ms in all"),
        Figure(alone, "ms, the client alone"),
    ]
    return Row(
        "a test of one record through kafka-python",
        figures,
        "the client alone: a recording answers its requests",
    )


def push() -> Row:
    """What `broker.clock.advance(days=8)` takes where there is something to keep, to delete and to
    compact.
    """
    figures = []
    for storage, at_most in PUSH_MS_MAX.items():
        with tempfile.TemporaryDirectory() as folder, kqueue.Broker(folder if storage == "disk" else None) as broker:
            for number in range(ADVANCED_TOPICS):
                policy = "delete" if number % 5 else "compact"
                broker.create_topic(f"t{number}", ADVANCED_PARTITIONS, cleanup_policy=policy, segment_bytes=1024)
            with KafkaProducer(bootstrap_servers=broker.bootstrap, batch_size=0) as producer:
                for number in range(ADVANCED_TOPICS * ADVANCED_PARTITIONS * 10):
                    producer.send(f"t{number % ADVANCED_TOPICS}", bytes(200), key=b"%d" % (number % 40))
            began = time.perf_counter()
            broker.clock.advance(days=8)
            figures.append(Figure((time.perf_counter() - began) * 1000, f"ms, {storage}", at_most=at_most))
    note = (
        f"{ADVANCED_TOPICS} topics of {ADVANCED_PARTITIONS} partitions, a fifth of them compacted, "
        "on disk in a process for each"
    )
    return Row("clock.advance(days=8)", figures, note)


def steps() -> Iterator[tuple[str, Callable[[], Row]]]:
    yield "test kit: start", start
    yield "test kit: further starts", further_starts
    yield "test kit: help", help_text
    yield "test kit: a leader is killed", failover
    yield "test kit: one record", overhead
    yield "test kit: a suite", suite.row
    yield "test kit: eight days", push


def _least_start_ms(make: Callable[[], AbstractContextManager[object]]) -> float:
    starts_ms = []
    for _ in range(START_ROUNDS):
        began = time.perf_counter()
        with make():
            starts_ms.append((time.perf_counter() - began) * 1000)
    return min(starts_ms)


def _whole_ms(broker: kqueue.Broker, topic: str) -> float:
    began = time.perf_counter()
    broker.create_topic(topic)
    one_record(broker.bootstrap, topic)
    return (time.perf_counter() - began) * 1000


def _alone_ms(answers: tuple[int, Answers]) -> float:
    port, recorded = answers
    with Replay(port, recorded):
        began = time.perf_counter()
        one_record(f"127.0.0.1:{port}", TOPIC)
        return (time.perf_counter() - began) * 1000


def _recorded() -> tuple[int, Answers]:
    port = _free_port()
    options = {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}"}
    with record(port) as recorder, kqueue.Broker(settings=options) as broker:
        # the broker advertises the recorder's address, so the client connects to it again
        recorder.broker = ("127.0.0.1", _bound(broker))
        broker.create_topic(TOPIC)
        one_record(f"127.0.0.1:{port}", TOPIC)
        return port, recorder.answers


def _bound(broker: kqueue.Broker) -> int:
    """Return the address on which it listens, whatever it advertises."""
    return broker._server.bound(broker._server.listener_names[0])[1]


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])
