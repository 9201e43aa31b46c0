from __future__ import annotations

import asyncio
import contextlib
import re
import signal
import threading
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewTopic

from kqueue.client import Client
from kqueue.supervisor import keeper
from kqueue.tests.supervisor.served_workers import ServedWorkers, serving
from kqueue.tests.supervisor.test_worker_process import ORDER, children
from kqueue.tests.thorough import corners
from kqueue.tests.waits import eventually

PARTITIONS = 6
KEYS = 30
LOAD = 300
"""Records that are confirmed before each kill, and after the last."""


class Load:
    """Idempotent producer with acks=all that sends numbered records of several keys until `end`."""

    def __init__(self, bootstrap: str) -> None:
        self.acknowledged: list[tuple[int, int]] = []
        self.failed: list[str] = []
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 2,
                "retry.backoff.ms": 50,
                "reconnect.backoff.max.ms": 200,
                "log_level": 2,
            }
        )
        self._going = True
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while self._going:
            key = number % KEYS
            self._producer.produce(
                "orders",
                key=b"%d" % key,
                value=b"%d" % number,
                partition=key % PARTITIONS,
                on_delivery=lambda error, message, number=number: self._delivered(error, number),  # type: ignore[misc]
            )
            number += 1
            self._producer.poll(0.005)
        assert self._producer.flush(60) == 0

    def _delivered(self, error: object, number: int) -> None:
        if error is None:
            self.acknowledged.append((number % KEYS, number))
        else:
            self.failed.append(str(error))

    def end(self) -> None:
        self._going = False
        self._thread.join(90)
        assert not self._thread.is_alive()


def consume_all(bootstrap: str) -> dict[int, list[int]]:
    """The numbers by key, in the order of their offsets."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "all", "auto.offset.reset": "earliest"})
    values_by_key: dict[int, list[int]] = {key: [] for key in range(KEYS)}
    try:
        partitions = [TopicPartition("orders", index, 0) for index in range(PARTITIONS)]
        left = sum(consumer.get_watermark_offsets(one, timeout=60)[1] for one in partitions)
        consumer.assign(partitions)
        while left:
            for message in consumer.consume(min(left, 1000), 10):
                assert message.error() is None
                values_by_key[int(message.key())].append(int(message.value()))
                left -= 1
    finally:
        consumer.close()
    return values_by_key


def differences(consumed: dict[int, list[int]], expected: dict[int, list[int]]) -> dict[int, str]:
    return {
        key: f"missing {sorted(set(numbers) - set(consumed[key]))[:9]}, twice or not sent "
        f"{sorted((Counter(consumed[key]) - Counter(numbers)).elements())[:9]}, the last was {numbers[-1]}"
        for key, numbers in expected.items()
        if consumed[key] != numbers
    }


@pytest.mark.long
@pytest.mark.parametrize(("workers", "victim", "kills"), corners([(2, 0, 1), (3, 0, 2), (3, 2, 2)]))
def test_nothing_is_lost_when_a_worker_is_killed_under_load(
    tmp_path: Path, workers: int, victim: int, kills: int
) -> None:
    with serving(tmp_path, workers, "--topic", f"orders:{PARTITIONS}") as served:
        served.wait_for("created topic orders")
        load = Load(served.bootstrap)
        try:
            for round in range(1, kills + 1):
                before = len(load.acknowledged)
                eventually(lambda before=before: len(load.acknowledged) > before + LOAD)  # type: ignore[misc]
                served.workers()[victim].kill()
                served.wait_for(rf"supervisor: worker {victim}: its process \d+ was ended by SIGKILL", round)
                served.wait_for(rf"worker {victim}: kqueue .* serves", round + 1)
            before = len(load.acknowledged)
            eventually(lambda: len(load.acknowledged) > before + LOAD)
        finally:
            load.end()
        assert load.failed == []
        consumed = consume_all(served.bootstrap)
        assert served.end() == 0
    others = [line for line in served.log if re.search("not clean", line) and f"worker {victim}:" not in line]
    assert others == []  # they went on
    expected: dict[int, list[int]] = {key: [] for key in range(KEYS)}
    for key, number in sorted(load.acknowledged):
        expected[key].append(number)
    assert differences(consumed, expected) == {}  # each once, in the order of sending


@pytest.mark.thorough
def test_a_worker_that_is_asked_to_stop_comes_back(tmp_path: Path) -> None:
    with serving(tmp_path, 2, "--topic", "orders:2") as served:
        served.wait_for("created topic orders")
        producer = KafkaProducer(bootstrap_servers=served.bootstrap)
        for index in range(2):
            producer.send("orders", b"one", partition=index).get(timeout=60)
        served.workers()[1].terminate()
        served.wait_for("supervisor: worker 1: stopped; it is started again")
        offsets = [producer.send("orders", b"two", partition=index).get(timeout=30).offset for index in range(2)]
        assert offsets == [1, 1]
        producer.close()
        assert served.end() == 0


@pytest.mark.thorough
def test_a_worker_that_cannot_come_back_is_tried_ever_slower(tmp_path: Path) -> None:
    with serving(tmp_path, 2, "--topic", "orders:2") as served:
        served.wait_for("created topic orders")
        assert served.bootstrap  # once all serve; a worker that ends before ends the start
        own = tmp_path / "workers" / "1"
        (own / "meta.properties").write_text("node.id=77\ncluster.id=other\nversion=1\n")
        served.workers()[1].kill()
        for delay in ("0.5", "1", "2"):
            served.wait_for(rf"supervisor: worker 1: .*; it is started again in {delay} s")
        assert any("belongs to cluster other" in line and "started again in 1 s" in line for line in served.log)
        producer = KafkaProducer(bootstrap_servers=served.bootstrap)
        mine = next(index for index in range(2) if leader(served, index) == 1)
        assert producer.send("orders", b"still", partition=mine).get(timeout=60).offset == 0
        producer.close()
        assert served.end() == 0


def test_slow_failure_does_not_count_as_serving(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """On a busy machine it would be started again and again at once."""
    monkeypatch.setattr(keeper, "STEADY_S", 0.0)
    children(monkeypatch, "sys.exit(3)")

    async def run() -> None:
        kept = keeper.Keeper(ORDER)
        kept.serves.set()  # its first process did
        kept.is_ready.set()
        running = asyncio.ensure_future(kept.run())
        async with asyncio.timeout(60):
            while len(caplog.messages) < 2:
                await asyncio.sleep(0.01)
        kept.stop()
        with contextlib.suppress(keeper.WorkerFailed):
            await running

    asyncio.run(run())
    assert [text.rpartition("again ")[2] for text in caplog.messages[:2]] == ["in 0.5 s", "in 1 s"]


def leader(served: ServedWorkers, index: int) -> int:
    with Client(served.bootstrap) as client:
        return client.metadata(["orders"]).topics["orders"].partitions[index].leader


@pytest.mark.long
def test_a_restart_while_the_others_stop_is_stopped_too(tmp_path: Path) -> None:
    with serving(tmp_path, 2) as served:
        assert served.bootstrap
        served.workers()[1].kill()
        served.wait_for("supervisor: worker 1: .*it is started again")
        assert served.end(signal.SIGTERM) == 0
        assert "Traceback" not in "".join(served.log)


@pytest.mark.thorough
def test_a_restart_does_not_create_deleted_topics_again(tmp_path: Path) -> None:
    with serving(tmp_path, 2, "--topic", "orders:2") as served:
        with KafkaAdminClient(bootstrap_servers=served.bootstrap) as admin:
            admin.delete_topics(["orders"])
            served.workers()[0].kill()
            served.wait_for("broker 1 .* is unfenced", 2)
            served.wait_for("worker 0: kqueue .* serves", 2)
        with KafkaAdminClient(bootstrap_servers=served.bootstrap) as admin:  # it knows who lives
            admin.create_topics([NewTopic("payments", 1, 1)])
            assert "orders" not in admin.list_topics()
        assert served.end() == 0
    assert len([line for line in served.log if "created topic orders" in line]) == 1
