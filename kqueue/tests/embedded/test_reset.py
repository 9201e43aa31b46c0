"""`Broker.reset`: the state is as after the first start, and open clients continue."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

import kqueue
from kqueue.base.errors import StorageFailed
from kqueue.broker.topics.topics import OFFSETS_TOPIC
from kqueue.metadata.memory import MemoryStore
from kqueue.storage import MemoryStorage
from kqueue.testing import faults
from kqueue.tests.embedded.clients import KINDS, clients
from kqueue.tests.waits import eventually


@pytest.fixture(params=["memory", "disk"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    return tmp_path / "data" if request.param == "disk" else None


@pytest.fixture
def broker(folder: Path | None) -> Iterator[kqueue.Broker]:
    with kqueue.Broker(folder) as broker:
        yield broker


def use(broker: kqueue.Broker) -> None:
    """Change state of every kind."""
    with KafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
        producer.send("orders", b"two coffees").get(60)
    consumer = KafkaConsumer(
        "orders", bootstrap_servers=broker.bootstrap, group_id="mail", auto_offset_reset="earliest"
    )
    assert next(consumer).value == b"two coffees"
    consumer.commit()
    consumer.close()


def test_reset_restores_the_state_after_the_start(broker: kqueue.Broker) -> None:
    port = broker.port
    for _ in range(2):
        use(broker)
        before = broker.clock.now()
        broker.clock.advance(days=1)
        assert broker.groups["mail"].state == "Empty"
        broker.reset()
        assert (list(broker.topics), list(broker.groups), list(broker.requests)) == ([], [], [])
        assert OFFSETS_TOPIC not in broker.topics
        assert timedelta() <= broker.clock.now() - before < timedelta(hours=1)
        assert broker.port == port


def test_the_folder_keeps_what_is_not_the_brokers_and_no_topic(tmp_path: Path) -> None:
    with kqueue.Broker(tmp_path) as broker:
        (tmp_path / "notes.txt").write_text("mine")
        use(broker)
        before = {path.name for path in tmp_path.iterdir()}
        assert "orders-0" in before
        broker.reset()
        assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == set()
        assert (tmp_path / "notes.txt").read_text() == "mine"
        cluster_id = broker._server.broker.identity.cluster_id
    with kqueue.Broker(tmp_path) as broker:
        assert (list(broker.topics), list(broker.groups)) == ([], [])
        assert broker._server.broker.identity.cluster_id == cluster_id


def test_faults_are_removed_and_new_ones_can_follow(broker: kqueue.Broker) -> None:
    with faults(broker) as injected:
        injected.fail("Produce", error="INVALID_RECORD", times=None)
        broker.reset()
        use(broker)
        assert injected.fired == []
        injected.fail("Metadata", error="LEADER_NOT_AVAILABLE", times=1)
        broker.create_topic("t")
        use(broker)
        assert len(injected.fired) == 1


def test_partition_offline_after_a_full_disk_serves_again(broker: kqueue.Broker) -> None:
    broker.create_topic("orders")
    with faults(broker) as injected:
        injected.disk_full()
        with pytest.raises(StorageFailed):
            broker.topics["orders"].produce("lost")
        broker.reset()
        broker.create_topic("orders")
        assert broker.topics["orders"].produce("kept").offset == 0


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_open_clients_continue(broker: kqueue.Broker, kind: str) -> None:
    with clients(kind, broker) as client:
        client.producer_options = {"retry_backoff_ms": 20}
        broker.create_topic("orders")
        reader = client.consumer("orders", group_id="mail", heartbeat_interval_ms=100, metadata_max_age_ms=500)
        for number in range(3):
            if number:
                broker.reset()
            client.send("orders", b"%d" % number)
            assert reader.take(1) == [b"%d" % number]
            broker.assert_produced("orders", [b"%d" % number])


def test_librdkafka_stays_open_too(broker: kqueue.Broker) -> None:
    confluent = pytest.importorskip("confluent_kafka")
    options = {
        "bootstrap.servers": broker.bootstrap,
        "log_level": 0,
        "reconnect.backoff.ms": 5,
        "reconnect.backoff.max.ms": 20,
    }
    producer = confluent.Producer({**options, "enable.idempotence": True})
    for number in range(3):
        errors: list[object] = []
        producer.produce("orders", b"%d" % number, on_delivery=lambda error, _, errors=errors: errors.append(error))
        assert producer.flush(60) == 0
        assert errors == [None]
        broker.assert_produced("orders", [b"%d" % number])
        broker.reset()


def test_a_member_joins_its_group_again(folder: Path | None) -> None:
    options = {"group_id": "mail", "auto_offset_reset": "earliest", "heartbeat_interval_ms": 100}
    options["enable_auto_commit"] = False  # kafka-python raises what a commit in between is answered
    # kafka-python 3 asks for the creation of its topics, whatever allow_auto_create_topics is
    with kqueue.Broker(folder, settings={"auto.create.topics.enable": False}) as broker:
        broker.create_topic("orders")
        with closing(KafkaConsumer("orders", bootstrap_servers=broker.bootstrap, **options)) as consumer:
            consumer.partitions_for_topic("orders")  # or it joins twice; see examples/flash_sale.py
            while not consumer.assignment():
                consumer.poll(timeout_ms=500)
            broker.reset()
            broker.create_topic("orders")
            broker.topics["orders"].produce("two coffees")
            eventually(lambda: consumer.poll(timeout_ms=200) is not None and _has_members(broker, "mail"))


def _has_members(broker: kqueue.Broker, group: str) -> bool:
    return group in broker.groups and bool(broker.groups[group].members)


def test_producer_ids_are_not_reused(broker: kqueue.Broker) -> None:
    def producer_id() -> int:
        async def allocate() -> int:
            return await broker._server.result(broker._server.broker.metadata.producer_ids.allocate())

        return broker._call(allocate)

    before = producer_id()
    broker.reset()
    assert producer_id() > before


def test_snapshot_is_restored(tmp_path: Path) -> None:
    with kqueue.Broker() as original:
        original.create_topic("menu")
        original.topics["menu"].produce("coffee")
        original.snapshot(tmp_path / "seed")
    with kqueue.Broker(snapshot=tmp_path / "seed") as broker:
        broker.topics["menu"].produce("tea")
        broker.create_topic("orders")
        broker.reset()
        assert list(broker.topics) == ["menu"]
        broker.assert_produced("menu", ["coffee"])
    with (
        kqueue.Broker(tmp_path / "copy", snapshot=tmp_path / "seed") as broker,
        pytest.raises(RuntimeError, match="only if it is in memory"),
    ):
        broker.reset()


def test_given_storages_and_stores_are_emptied_and_kept() -> None:
    with kqueue.Broker(storage=MemoryStorage(), metadata=MemoryStore()) as broker:
        use(broker)
        broker.reset()
        assert list(broker.topics) == []
        use(broker)


def test_a_reset_needs_a_running_broker_and_another_thread() -> None:
    broker = kqueue.Broker()
    with pytest.raises(RuntimeError, match="not running"):
        broker.reset()

    async def reset() -> None:
        broker.reset()

    with broker, pytest.raises(RuntimeError, match="own thread"):
        asyncio.run_coroutine_threadsafe(reset(), broker._thread.loop).result(60)


def test_committed_offsets_do_not_come_back_after_a_reset_and_a_restart(broker: kqueue.Broker) -> None:
    use(broker)
    broker.reset()
    broker.restart()
    broker.create_topic("orders")
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap, group_id="mail")
    assert consumer.committed(TopicPartition("orders", 0)) is None
    consumer.close()
