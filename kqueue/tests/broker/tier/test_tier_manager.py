"""A broker with a tier, from outside: what consumers read, what is where, what a crash costs."""

from __future__ import annotations

import logging

import pytest

from kqueue.base.config_resources import ConfigChange, ConfigOperation, ResourceType
from kqueue.broker.configs.dynamic_configs import ConfigResource
from kqueue.testing.simulation import Simulation
from kqueue.tests.api.fetch_client import values
from kqueue.tests.broker.test_broker import kill
from kqueue.tests.broker.tier.tiered_brokers import FailingStore, TieredClient
from kqueue.tests.tables import for_each
from kqueue.tier.errors import TierUnavailable
from kqueue.tier.stores.memory import MemoryTierStore
from kqueue.wire.error_codes import ErrorCode


def restarted(client: TieredClient) -> TieredClient:
    client.sim.stop()
    return TieredClient(client.store, sim=client.sim.restarted())


def crashed(client: TieredClient) -> TieredClient:
    kill(client.sim)
    return TieredClient(client.store, sim=client.sim.restarted())


@for_each("version", [2, 4, 11, 13])
def test_consumer_reads_from_the_start_over_the_border_of_tier_and_disk(version: int) -> None:
    client = TieredClient()
    log = client.topic().partition(0).log
    client.fill(20)
    client.tick()
    client.fill(3, start=20)
    assert (log.start_offset, log.local_start_offset, log.end_offset) == (0, 18, 23)
    assert len(log.segments) == 3
    assert client.read_all(version=version) == [b"v%d" % number for number in range(23)]


def test_nothing_is_deleted_here_that_the_tier_lacks() -> None:
    client = TieredClient()
    log = client.topic().partition(0).log
    client.tick()
    client.store.error = TierUnavailable("the store does not answer")
    client.fill(10)
    client.tick(5)
    assert (log.local_start_offset, log.tiered_end) == (0, 0)
    client.store.error = None
    client.tick()
    assert (log.local_start_offset, log.tiered_end) == (8, 8)


@for_each("restart", [restarted, crashed])
def test_tiered_log_is_whole_after_a_restart(restart: object) -> None:
    client = TieredClient()
    client.topic()
    client.fill(20)
    client.tick()
    client = restart(client)  # type: ignore[operator]
    log = client.sim.broker.topics.get("t").partition(0).log
    assert (log.start_offset, log.local_start_offset) == (0, 18)
    client.fill(6, start=20)
    client.tick()
    assert log.tiered_end >= 24
    assert client.read_all() == [b"v%d" % number for number in range(26)]


def test_expired_segments_leave_the_tier_and_the_log() -> None:
    client = TieredClient()
    log = client.topic(retention_ms="100000", local_retention_ms="1000").partition(0).log
    client.fill(10)
    client.tick(4)
    assert log.local_start_offset == 10
    assert len(client.objects()) == 7
    client.sim.advance(60_000)
    client.fill(4, start=10)
    client.sim.advance(50_000)
    assert (log.start_offset, log.end_offset) == (10, 14)
    client.sim.advance(5_000)
    assert len(client.objects()) == 4, "manifest, topic record, and the segments of offsets 10 to 13"
    assert client.read(3).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert client.read_all(10) == [b"v10", b"v11", b"v12", b"v13"]


def test_size_of_tier_and_disk_together_is_bounded() -> None:
    client = TieredClient()
    log = client.topic(retention_bytes="700").partition(0).log
    client.fill(20)
    client.tick(3)
    kept = client.state(client.sim.broker.topics.get("t").partition(0)).manifest.root.size
    assert 700 <= kept + log.segments.active.size < 700 + 145
    assert client.read_all(log.start_offset)[-1] == b"v19"


def test_tier_of_another_cluster_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    store = FailingStore(MemoryTierStore("tests-of-two"))
    first = TieredClient(store)
    first.topic()
    first.fill(6)
    first.tick()
    keys = first.objects()
    caplog.set_level(logging.ERROR)
    second = TieredClient(store, seed=1)
    second.topic()
    second.fill(10)
    second.tick(5)
    assert second.objects() == keys
    (line,) = [line for line in caplog.messages if "nothing is copied into the tier" in line]
    assert "two clusters would delete each other's segments" in line
    assert second.read_all() == [b"v%d" % number for number in range(10)]


def test_store_that_comes_later_is_used_then(caplog: pytest.LogCaptureFixture) -> None:
    store = FailingStore(MemoryTierStore("tests-later"))
    store.error = TierUnavailable("no route to the store")
    client = TieredClient(store)
    client.topic()
    client.fill(6)
    client.tick(4)
    assert len([line for line in caplog.messages if "no route to the store" in line]) == 1
    store.error = None
    client.tick()
    assert client.sim.broker.topics.get("t").partition(0).log.tiered_end == 4


def test_deleted_topic_leaves_no_object_in_the_tier() -> None:
    client = TieredClient()
    client.topic()
    client.topic("other")
    client.fill(10)
    client.fill(6, "other")
    client.tick()
    client.sim.result(client.sim.broker.topics.delete("t"))
    client.tick()
    assert {key.split("/")[1] for key in client.objects()} == {"other"}
    assert not client.sim.broker.metadata.cache.with_prefix("/deleted_topics/")


def test_deletion_of_a_topic_goes_on_after_a_crash() -> None:
    client = TieredClient()
    client.topic()
    client.fill(10)
    client.tick()
    client.store.error = TierUnavailable("the store does not answer")
    client.sim.result(client.sim.broker.topics.delete("t"))
    client.tick()
    assert client.objects()
    assert client.sim.broker.metadata.cache.with_prefix("/deleted_topics/")
    client.store.error = None
    client = crashed(client)
    client.tick()
    assert not client.objects()
    assert not client.sim.broker.metadata.cache.with_prefix("/deleted_topics/")


def alter(sim: Simulation, **values: str) -> None:
    changes = [ConfigChange(ConfigOperation.SET, name.replace("_", "."), value) for name, value in values.items()]
    sim.result(sim.broker.configs.alter(ConfigResource(ResourceType.TOPIC, "t"), changes))


def test_topic_that_is_tiered_no_more_starts_with_what_is_here() -> None:
    client = TieredClient()
    log = client.topic().partition(0).log
    client.fill(20)
    client.tick()
    alter(client.sim, remote_storage_enable="false", remote_log_delete_on_disable="true")
    client.tick()
    assert (log.start_offset, log.local_start_offset) == (18, 18)
    assert [key for key in client.objects() if not key.endswith("topic.json")] == []
    assert client.read(3).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert client.read_all(18) == [b"v18", b"v19"]
    client.sim.stop()


def test_topic_that_is_tiered_again_copies_what_is_here() -> None:
    client = TieredClient()
    log = client.topic().partition(0).log
    client.fill(20)
    client.tick()
    alter(client.sim, remote_storage_enable="false", remote_log_delete_on_disable="true")
    client.tick()
    alter(client.sim, remote_storage_enable="true")
    client.fill(10, start=20)
    client.tick()
    assert (log.start_offset, log.tiered_end) == (18, 28)
    assert client.read_all(18) == [b"v%d" % number for number in range(18, 30)]


def test_disabled_copies_leave_the_tier_readable() -> None:
    client = TieredClient()
    log = client.topic(local_retention_bytes="-2").partition(0).log
    client.fill(10)
    client.tick()
    alter(client.sim, remote_log_copy_disable="true")
    client.fill(10, start=10)
    client.tick()
    assert log.tiered_end == 8
    assert client.read_all() == [b"v%d" % number for number in range(20)]


def test_record_of_a_topic_follows_its_settings_and_partitions() -> None:
    client = TieredClient()
    topic = client.topic(partitions=2)
    client.tick()
    (key,) = [key for key in client.objects() if key.endswith("topic.json")]
    alter(client.sim, retention_bytes="12345")
    client.sim.result(client.sim.broker.topics.add_partitions("t", 3))
    client.tick()
    body = client.store.store.get(key, max_bytes=10_000).body
    assert b'"partitions": 3' in body
    assert b'"retention.bytes": "12345"' in body
    assert topic.id.hex() not in key


def test_deleted_records_leave_the_tier() -> None:
    client = TieredClient()
    topic = client.topic()
    client.fill(20)
    client.tick()
    assert client.sim.result(client.sim.broker.upkeep.deletion.delete_before(topic, 0, 11)) == 11
    client.tick()
    assert topic.partition(0).log.start_offset == 11
    assert len(client.objects()) == 2 + 4, "segments of offsets 10 to 17"
    assert values(client.read(11)) == [b"v11"]
    assert client.read(10).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    client = crashed(client)
    client.tick()
    assert client.sim.broker.topics.get("t").partition(0).log.start_offset == 11
