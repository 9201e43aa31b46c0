from __future__ import annotations

import random
from pathlib import Path

import pytest

from kqueue.base.errors import StorageFailed
from kqueue.broker.metadata.cache import MetadataCache
from kqueue.broker.topics.folder_import import import_folders
from kqueue.log.deletion import remove_folder
from kqueue.log.formats.checkpoints import encode_partition_metadata
from kqueue.log.manager import LogManager, OfflineFolder
from kqueue.metadata.memory import MemoryStore
from kqueue.storage import LocalStorage, MemoryStorage
from kqueue.testing.manual_clock import ManualClock
from kqueue.testing.simulation import Simulation
from kqueue.tests import golden
from kqueue.tests.broker.replicas.test_partition import append, values
from kqueue.tests.broker.topics.test_kafka_metadata import ID, partition, removed, setting, topic, write


def test_a_data_folder_with_a_new_store_is_imported() -> None:
    sim = Simulation()
    topic = sim.topic("orders", 2)
    append(topic.partition(1), b"a", b"b")
    sim.settle()
    sim.stop()
    adopted = Simulation(storage=sim.storage, clock=sim.clock)
    imported = adopted.broker.topics.get("orders")
    assert imported.id == topic.id
    assert len(imported.partitions) == 2
    assert values(imported.partition(1)) == [b"a", b"b"]
    assert adopted.broker.replicas.host.sole_replica.leader_epoch > sim.broker.replicas.host.sole_replica.leader_epoch
    assert adopted.result(adopted.broker.metadata.producer_ids.allocate()) >= 1 << 40
    adopted.stop()
    assert adopted.restarted().broker.topics.names() == ["orders"]


def test_folders_of_no_known_topic_are_set_aside_and_not_deleted() -> None:
    storage = MemoryStorage()
    sim = Simulation(storage=storage)
    append(sim.topic("orders").partition(0), b"a")
    sim.settle()
    sim.stop()
    old_store = sim.store
    later = sim.restarted()
    append(later.topic("later").partition(0), b"precious")
    later.settle()
    later.stop()
    store = MemoryStore()
    entries = {key: entry.value for key, entry in old_store.read("/").items() if not key.endswith("/later")}
    store.commit({}, entries, [])
    again = Simulation(storage=storage, store=store, clock=sim.clock)
    assert again.broker.topics.names() == ["orders"]
    names = [entry.name for entry in storage.list("") if entry.name.startswith("later")]
    assert len(names) == 1
    assert names[0].endswith("-stray")
    again.topic("later")
    assert values(again.broker.topics.partition("later", 0)) == []


def test_a_folder_of_kafka_opens_as_it_is(tmp_path: Path) -> None:
    """S3.6: topics, records and committed offsets of a stopped Kafka 4.3 are served; its own
    metadata log is left alone.
    """
    folder = golden.copy_folder("4.3", tmp_path / "data")
    sim = Simulation(storage=LocalStorage(folder), clock=ManualClock(1_800_000_000_000))
    topics = sim.broker.topics
    assert "__cluster_metadata" not in topics.names()
    assert (folder / "__cluster_metadata-0").is_dir()
    assert {"v2-gzip", "v2-three-partitions", "compacted", "txn", "__consumer_offsets"} <= set(topics.names())
    expected = golden.expected("4.3")["v2-gzip"].of_partition(0)
    assert values(topics.partition("v2-gzip", 0)) == [record.value for record in expected]
    assert sim.broker.coordinators.groups.offsets("golden-v2-gzip")["v2-gzip"][0].offset == 123
    sim.stop()
    assert "v2-gzip" in sim.restarted().broker.topics.names()


def test_all_records_of_topics_with_unknown_settings_are_kept(tmp_path: Path) -> None:
    """Kafka 2.8 kept settings in ZooKeeper: its records are years old, and may have been meant to
    stay. S5.1
    """
    folder = golden.copy_folder("2.8", tmp_path / "data")
    sim = Simulation({"node.id": 0}, storage=LocalStorage(folder), clock=ManualClock(1_900_000_000_000))
    sim.advance(3_600_000)
    expected = golden.expected("2.8")["v1-none"].of_partition(0)
    partition = sim.broker.topics.partition("v1-none", 0)
    assert (partition.log_start_offset, partition.high_watermark) == (expected[0].offset, expected[-1].offset + 1)
    assert sim.broker.topics.get("v1-none").config["retention.ms"] == -1
    sim.stop()


def test_a_configured_retention_applies_to_imported_topics(tmp_path: Path) -> None:
    folder = golden.copy_folder("2.8", tmp_path / "data")
    sim = Simulation(
        {"node.id": 0, "log.retention.hours": 24}, storage=LocalStorage(folder), clock=ManualClock(1_900_000_000_000)
    )
    sim.advance(3_600_000)
    partition = sim.broker.topics.partition("v1-none", 0)
    assert partition.log_start_offset == partition.high_watermark > 0
    sim.stop()


def test_nothing_is_imported_while_a_data_folder_is_offline() -> None:
    """What it holds would be missing for ever."""
    sim = Simulation()
    sim.topic("orders")
    sim.stop()
    offline = OfflineFolder("two", StorageFailed("two: Input/output error"))
    logs = LogManager([sim.storage], clock=sim.clock, rng=random.Random(1), offline=[offline])
    metadata = MetadataCache(MemoryStore(), sim.jobs, sim.broker.scheduler.purgatory)
    with pytest.raises(StorageFailed, match="while a data folder is offline: two: Input/output error"):
        import_folders(metadata, logs, sim.broker.config)


def test_a_damaged_record_of_a_topic_is_named() -> None:
    sim = Simulation()
    sim.topic("orders")
    sim.stop()
    sim.store.commit({}, {"/topics/orders": b'{"id": 1'}, [])
    with pytest.raises(StorageFailed, match="the metadata store is damaged: /topics/orders can't be read"):
        sim.restarted()


def test_topic_settings_of_kafka_are_imported(tmp_path: Path) -> None:
    """S5.2, S3.6: a compacted topic stays one, and LogAppendTime goes on."""
    folder = golden.copy_folder("4.3", tmp_path / "data")
    topics = Simulation(storage=LocalStorage(folder), clock=ManualClock(1_800_000_000_000)).broker.topics
    assert topics.get("compacted").log_config.compacted
    assert topics.get("compacted").config["delete.retention.ms"] == 600_000
    assert topics.get("v2-logappend").log_config.log_append_time
    assert topics.get("__transaction_state").log_config.compacted
    assert not topics.get("v2-gzip").log_config.compacted


def test_a_setting_that_only_kafka_has_is_ignored_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    storage = MemoryStorage()
    noted = [topic("a"), setting("a", "internal.segment.bytes", "500"), setting("a", "cleanup.policy", "compact")]
    visit_of_kafka(storage, noted, {"a-0": ID})
    assert Simulation(storage=storage).broker.topics.get("a").log_config.compacted
    assert "internal.segment.bytes" in caplog.text


def visit_of_kafka(storage: MemoryStorage, noted: list[bytes], folders: dict[str, bytes | None]) -> None:
    """Kafka was here: it noted something of its topics, and made partitions (or took them away:
    None).
    """
    write(storage, noted)
    for name, id in folders.items():
        if id is None:
            remove_folder(storage, name)
        else:
            storage.make_folder(name)
            storage.open(f"{name}/partition.metadata", create=True).append(encode_partition_metadata(id))


def test_topic_changes_by_kafka_between_starts_are_followed() -> None:
    """S3.1: it makes one, adds partitions, changes settings, deletes one, and deletes and makes one
    anew.
    """
    storage = MemoryStorage()
    gone, anew, again, new = b"g" * 16, b"w" * 16, b"W" * 16, b"n" * 16
    noted = [topic("a"), partition(0), topic("gone", gone), partition(0, gone), topic("anew", anew), partition(0, anew)]
    visit_of_kafka(storage, noted, {"a-0": ID, "gone-0": gone, "anew-0": anew})
    sim = Simulation(storage=storage)
    sim.topic("ours")
    append(sim.broker.topics.partition("a", 0), b"kept")
    sim.settle()
    sim.stop()
    noted = [partition(1), setting("a", "cleanup.policy", "compact"), removed(gone), removed(anew)]
    noted += [topic("anew", again), partition(0, again)]
    visit_of_kafka(storage, noted, {"a-1": ID, "gone-0": None, "anew-0": None})
    visit_of_kafka(storage, [topic("new", new), partition(0, new)], {"anew-0": again, "new-0": new})
    later = sim.restarted()
    topics = later.broker.topics
    assert topics.names() == ["a", "anew", "new", "ours"]
    assert len(topics.get("a").partitions) == 2
    assert topics.get("a").log_config.compacted
    assert values(topics.partition("a", 0)) == [b"kept"]
    assert topics.get("anew").id == again
    assert not [entry.name for entry in storage.list("") if entry.name.endswith("-stray")]
    assert later.broker.replicas.host.sole_replica.leader_epoch > sim.broker.replicas.host.sole_replica.leader_epoch
    later.stop()
    assert later.restarted().broker.topics.names() == ["a", "anew", "new", "ours"]


def test_nothing_is_imported_again_unless_kafka_ran() -> None:
    storage = MemoryStorage()
    visit_of_kafka(storage, [topic("a"), partition(0)], {"a-0": ID})
    sim = Simulation(storage=storage)
    epoch = sim.broker.replicas.host.sole_replica.leader_epoch
    for _ in range(2):
        sim.stop()
        sim = sim.restarted()
    assert sim.broker.replicas.host.sole_replica.leader_epoch == epoch


def test_a_folder_that_kafka_left_unclean_is_clean_after_our_stop() -> None:
    """S5.3: its own metadata log, which is never opened here, is not waited for."""
    storage = MemoryStorage()
    visit_of_kafka(storage, [topic("a"), partition(0)], {"a-0": ID})
    sim = Simulation(storage=storage)
    assert sim.broker.logs.was_unclean
    sim.stop()
    assert not sim.restarted().broker.logs.was_unclean
