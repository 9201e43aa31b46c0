"""The tiered demo: more than the brokers' disks hold, a disk lost, and a cluster made again from
the bucket alone.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from kqueue.base.clock import monotonic_s
from kqueue.base.text import counted, size_text
from kqueue.client.kafka_python import closed_at_end, flush
from kqueue.demo.broker_processes import ClusterOfProcesses, until
from kqueue.demo.clients import CLOSE_S, DemoFailed, new_producer
from kqueue.demo.progress_display import ProgressDisplay
from kqueue.demo.readings import Readings, ReadingsCheck
from kqueue.tier.catalog import topics_named
from kqueue.tier.manifest import Manifest
from kqueue.tier.stores.address import open_store

BROKERS = 3
PARTITIONS = 3
TOPIC = "readings"
SEGMENTS_LOCAL = 4
"""So many segments of a partition fit the bound of its local part."""
SESSION_TIMEOUT_MS = 2000
SETTINGS = {
    "broker.session.timeout.ms": SESSION_TIMEOUT_MS,
    "broker.heartbeat.interval.ms": SESSION_TIMEOUT_MS // 5,
    "group.initial.rebalance.delay.ms": 100,
    "offsets.topic.num.partitions": 1,
    "default.replication.factor": BROKERS,
    "min.insync.replicas": 2,
    "remote.log.storage.system.enable": "true",
    "remote.log.manager.task.interval.ms": 500,
    "log.retention.check.interval.ms": 1000,
    "log.segment.delete.delay.ms": 100,
}
TIERED_TIMEOUT_S = 600.0
SILENCE_MS = 30_000
SHOW_EVERY = 500
UNCONFIRMED_MAX = 4000
"""Readings that the producer holds: 32 MB."""


@dataclass(slots=True)
class TieredResult:
    """The measurements of the demo, for the table and the verdict.

    Attributes:
        sent: readings. local_bytes: of a broker's log files, once all is tiered that can be.
        lost_broker: whose disk was lost; copied_bytes: what it had after it was in sync again, in
            copied_s.
        read, spark_count, recovered: readings that were as sent: by kafka-python, by Spark from the
            bucket (None: without Spark), and by kafka-python after the recovery.
        tiered: readings in the bucket when the brokers were lost.
    """

    readings: Readings
    sent: int = 0
    send_s: float = 0.0
    tier: str = ""
    local_limit: int = 0
    local_bytes: int = 0
    lost_broker: int = 0
    copied_bytes: int = 0
    copied_s: float = 0.0
    read: ReadingsCheck | None = None
    read_s: float = 0.0
    spark_count: int | None = None
    spark_s: float = 0.0
    tiered: int = 0
    recovered: ReadingsCheck | None = None
    recover_s: float = 0.0
    total_s: float = 0.0

    @property
    def sent_bytes(self) -> int:
        """Bytes of all values."""
        return self.sent * len(self.readings.value(0))

    def differences(self) -> list[str]:
        """Return every deviation as half a sentence; empty if all is correct."""
        problems = []
        for check, expected, when in (
            (self.read, self.sent, "from the start"),
            (self.recovered, self.tiered, "after the recovery"),
        ):
            if check is None:
                problems.append(f"nothing was read {when}")
            elif check.difference is not None:
                problems.append(f"{when}: {check.difference}")
            elif check.count != expected:
                problems.append(f"{check.count:,} of {counted(expected, 'reading')} were read {when}")
        if self.spark_count is not None and self.spark_count != self.tiered:
            problems.append(f"Spark found {self.spark_count:,} of {self.tiered:,} readings in the bucket")
        if self.local_bytes > 2 * self.local_limit:
            problems.append(f"a broker has {size_text(self.local_bytes)} of log files")
        return problems

    def rows(self) -> list[tuple[str, str, str]]:
        """Return the rows of the table: what, how much, how fast or where."""
        rate = f"{self.sent_bytes / 1e6 / self.send_s:,.0f} MB/s" if self.send_s else ""
        read_rate = f"{self.sent_bytes / 1e6 / self.read_s:,.0f} MB/s" if self.read_s else ""
        spark = "-" if self.spark_count is None else f"{self.spark_count:,}"
        spark_note = f"{self.spark_s:.1f} s, while no broker runs"
        if self.spark_count is None:
            spark_note = "pyspark is not installed"
        return [
            ("Readings sent", f"{self.sent:,}", f"{size_text(self.sent_bytes)}, acks=all, {rate}"),
            ("On each broker's disk", size_text(self.local_bytes), f"local retention {size_text(self.local_limit)}"),
            ("In the bucket", f"{self.tiered:,}", self.tier),
            (
                f"Broker {self.lost_broker} lost its disk",
                size_text(self.copied_bytes),
                f"copied until it was in sync, {self.copied_s:.1f} s",
            ),
            ("Read from the start", _count(self.read), f"kafka-python, {read_rate}"),
            ("Read by Spark", spark, spark_note),
            (
                "Read after the recovery",
                _count(self.recovered),
                f"recovered from the bucket in {self.recover_s:.1f} s",
            ),
            ("Time, all in all", f"{self.total_s:.1f} s", ""),
        ]


def _count(check: ReadingsCheck | None) -> str:
    return "-" if check is None else f"{check.count:,}"


def run(
    folder: Path,
    display: ProgressDisplay,
    *,
    size: int,
    local: int,
    tier: str | None = None,
    stores: tuple[str, str] | None = None,
) -> TieredResult:
    """Run the demo in an empty `folder`.

    Args:
        size: bytes of readings to send. local: local retention of all partitions together.
        tier: URL of an empty tier; None: a folder in `folder`.
        stores: `kqueue.cluster.store` of the first cluster, and of the one that is recovered; None:
            SQLite in `folder`.
    Raises: DemoFailed, KafkaError, KqueueError, OSError: it could not be completed.
    """
    began_s = monotonic_s()
    shown = tier.partition("?")[0] if tier else "a folder as object store"
    tier = tier or (folder / "tier").resolve().as_uri()
    first_store, second_store = stores or tuple(f"sqlite:{folder / name}.db" for name in ("cluster", "recovered"))
    readings = Readings(size, PARTITIONS)
    result = TieredResult(readings, tier=shown, local_limit=local)
    segment_bytes = max(local // PARTITIONS // SEGMENTS_LOCAL, 1 << 16)
    with _cluster(folder / "before", first_store, tier, display) as cluster:
        _create_topic(cluster, segment_bytes, local)
        _send(cluster, readings, result, display)
        with display.step("Waiting until the bucket has it"):
            result.local_bytes = _await_tiered(cluster, local, segment_bytes)
        _lose_a_disk(cluster, result, display)
        result.read, result.read_s = _read(cluster, readings, display, "Reading it from the start", None)
        ends = _tiered_ends(tier)
        result.tiered = sum(ends)
    with display.step("Losing all brokers and their metadata"):
        shutil.rmtree(folder / "before")
    _read_by_spark(tier, folder, result, display)
    with _cluster(folder / "after", second_store, tier, display) as cluster:
        with display.step("Recovering topics and records from the bucket") as step:
            _recover(tier, second_store)
            cluster.await_in_sync(TOPIC)
        result.recover_s = step.seconds
        result.recovered, _ = _read(cluster, readings, display, "Reading it again", ends)
    result.total_s = monotonic_s() - began_s
    return result


@contextlib.contextmanager
def _cluster(folder: Path, store: str, tier: str, display: ProgressDisplay) -> Iterator[ClusterOfProcesses]:
    settings = {"kqueue.cluster.store": store, "kqueue.tier.url": tier, **SETTINGS}
    cluster = ClusterOfProcesses(folder, settings, BROKERS)
    with contextlib.ExitStack() as stack:
        with display.step(f"Starting {BROKERS} brokers in processes of their own"):
            stack.enter_context(cluster)
        yield cluster


def _create_topic(cluster: ClusterOfProcesses, segment_bytes: int, local: int) -> None:
    from kafka import KafkaAdminClient

    configs = {
        "remote.storage.enable": "true",
        "local.retention.bytes": str(local // PARTITIONS),
        "segment.bytes": str(segment_bytes),
        "retention.ms": "-1",
    }
    topic = {"num_partitions": PARTITIONS, "replication_factor": BROKERS, "configs": configs}
    with KafkaAdminClient(bootstrap_servers=cluster.bootstrap) as client:
        client.create_topics({TOPIC: topic}, wait_for_metadata=True)


def _send(cluster: ClusterOfProcesses, readings: Readings, result: TieredResult, display: ProgressDisplay) -> None:
    failures: list[BaseException] = []
    # kafka-python takes records without a bound, and gives up those that wait for two minutes.
    room = threading.BoundedSemaphore(UNCONFIRMED_MAX)

    def confirmed(stored: object) -> None:
        room.release()

    def failed(error: BaseException) -> None:
        failures.append(error)
        room.release()

    producer = new_producer(cluster.bootstrap, batch_bytes=256 * 1024, linger_ms=20)
    sending = display.step("Sending with kafka-python, acks=all", readings.count)
    with sending as step, closed_at_end(producer, CLOSE_S):
        for partition, value in readings:
            room.acquire()
            producer.send(TOPIC, value, partition=partition).add_callback(confirmed).add_errback(failed)
            result.sent += 1
            if result.sent % SHOW_EVERY == 0:
                step.show(result.sent)
        flush(producer)
    result.send_s = step.seconds
    if failures:
        raise DemoFailed(f"the brokers did not take {len(failures):,} of {result.sent:,} readings ({failures[0]})")


def _log_bytes(data: Path) -> int:
    sizes = []
    for file in data.glob(f"{TOPIC}-*/*.log"):
        with contextlib.suppress(FileNotFoundError):  # deleted since the folder was listed
            sizes.append(file.stat().st_size)
    return sum(sizes)


def _await_tiered(cluster: ClusterOfProcesses, local: int, segment_bytes: int) -> int:
    """Wait until each broker's disk has little more than the local retention; return the most that
    one has.
    """
    bound = local + 2 * PARTITIONS * segment_bytes
    until(
        "the brokers have deleted what the bucket has",
        lambda: all(_log_bytes(data) <= bound for data in cluster.data_folders),
        TIERED_TIMEOUT_S,
    )
    return max(map(_log_bytes, cluster.data_folders))


def _lose_a_disk(cluster: ClusterOfProcesses, result: TieredResult, display: ProgressDisplay) -> None:
    """Kill the leader of the first partition, delete its data, and start it with an empty disk."""
    with cluster.client() as client:
        victim = client.metadata([TOPIC]).topics[TOPIC].partitions[0].leader
    broker = cluster.brokers[victim]
    result.lost_broker = victim
    with display.step(f"Broker {victim} loses its disk and is replaced") as step:
        broker.kill()
        shutil.rmtree(broker.data)
        broker.start()
        cluster.await_in_sync(TOPIC)
    result.copied_s = step.seconds
    result.copied_bytes = _log_bytes(broker.data)


def _read(
    cluster: ClusterOfProcesses, readings: Readings, display: ProgressDisplay, title: str, ends: list[int] | None
) -> tuple[ReadingsCheck, float]:
    """Read all partitions from offset 0 to their ends with kafka-python."""
    from kafka import KafkaConsumer, TopicPartition

    check = ReadingsCheck(readings)
    partitions = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
    consumer = KafkaConsumer(
        bootstrap_servers=cluster.bootstrap, consumer_timeout_ms=SILENCE_MS, max_partition_fetch_bytes=4 << 20
    )
    try:
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        known = consumer.end_offsets(partitions)
        expected = sum(known.values()) if ends is None else sum(ends)
        with display.step(title, expected) as step:
            for record in consumer:
                check.note(record.partition, record.offset, record.value)
                if check.count % SHOW_EVERY == 0:
                    step.show(check.count)
                if check.count >= expected:
                    break
    finally:
        consumer.close()
    return check, step.seconds


def _tiered_ends(tier: str) -> list[int]:
    """Return up to where the bucket has each partition."""
    store = open_store(tier)
    try:
        (topic,) = topics_named(store, TOPIC)
        return [Manifest.open(store, topic.partition(number)).end_offset for number in range(PARTITIONS)]
    finally:
        store.close()


def _read_by_spark(tier: str, folder: Path, result: TieredResult, display: ProgressDisplay) -> None:
    """Count the readings in the bucket with Spark, while no broker runs."""
    if find_spec("pyspark") is None:
        return
    from kqueue.spark.console_output import stderr_to
    from kqueue.spark.session import job_session

    reading = display.step("Reading the bucket with Spark, without a broker")
    with reading as step, stderr_to(folder / "spark.log"), job_session("kqueue demo tiered", None) as spark:
        rows = spark.read.format("kqueue").option("path", tier).option("subscribe", TOPIC).load()
        result.spark_count = rows.select("partition", "offset").distinct().count()
    result.spark_s = step.seconds


def _recover(tier: str, store: str) -> None:
    """Make the topic again in the cluster of this store, as an operator does."""
    command = [sys.executable, "-m", "kqueue.cli", "tier", "recover", tier, "--store", store, "--take-over"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise DemoFailed(f"kqueue tier recover ended with {done.returncode}: {done.stderr or done.stdout}")
