"""The effects of a changed setting on topics that are open and in use. Time is the manual
clock's.
"""

from __future__ import annotations

from kqueue.base.config_resources import ConfigChange, ConfigOperation, ResourceType
from kqueue.broker.configs.dynamic_configs import ConfigResource
from kqueue.broker.topics.topics import NewTopic
from kqueue.records.batch import read_header
from kqueue.storage import MemoryStorage
from kqueue.testing.faulty_storage import FaultyStorage
from kqueue.testing.simulation import Simulation
from kqueue.tests.api.harness import NOW_MS, SimulatedClient, batch
from kqueue.tests.broker.upkeep.cleanup_broker import (
    CHECK_MS,
    SEGMENT,
    SETTINGS,
    bases,
    fill,
    latest,
    names,
    offsets,
    records,
)
from kqueue.tests.broker.upkeep.cleanup_broker import put as append
from kqueue.tests.tables import for_each
from kqueue.wire.error_codes import ErrorCode

TOPIC = ConfigResource(ResourceType.TOPIC, "t")
BROKER = ConfigResource(ResourceType.BROKER, "1")
DEFAULTS = ConfigResource(ResourceType.BROKER, "")


def put(sim: Simulation, resource: ConfigResource, **values: object) -> None:
    changes = [ConfigChange(ConfigOperation.SET, name.replace("_", "."), str(value)) for name, value in values.items()]
    sim.result(sim.broker.configs.alter(resource, changes))


def unset(sim: Simulation, resource: ConfigResource, name: str) -> None:
    sim.result(sim.broker.configs.alter(resource, [ConfigChange(ConfigOperation.DELETE, name)]))


def produced(client: SimulatedClient, *values: bytes, **settings: object) -> tuple[int, int]:
    """Error code and log append time of one batch."""
    result = client.produce("t", batch(*values, **settings))  # type: ignore[arg-type]
    return result.error_code, result.log_append_time_ms


# --- retention and compaction


@for_each(
    "resource, values",
    [
        (TOPIC, {"retention_ms": CHECK_MS}),
        (TOPIC, {"retention_bytes": 1000}),
        (BROKER, {"log_retention_ms": CHECK_MS}),
        (DEFAULTS, {"log_retention_bytes": 1000}),
    ],
)
def test_retention_drops_segments_of_an_open_log(resource: ConfigResource, values: dict[str, object]) -> None:
    sim = Simulation(SETTINGS)
    partition = sim.topic("t", **SEGMENT).partition(0)
    fill(sim, partition, 20)
    sim.advance(5 * CHECK_MS)
    assert offsets(partition)[0] == 0
    put(sim, resource, **values)
    sim.advance(CHECK_MS)
    assert partition.log_start_offset > 10
    for name in values:
        unset(sim, resource, name.replace("_", "."))
    kept = len(offsets(partition))
    sim.advance(10 * CHECK_MS)
    assert len(offsets(partition)) == kept


def test_a_topics_own_retention_outlasts_the_brokers() -> None:
    sim = Simulation(SETTINGS)
    partition = sim.topic("t", retention_ms="-1", **SEGMENT).partition(0)
    fill(sim, partition, 20)
    put(sim, DEFAULTS, log_retention_ms=1)
    sim.advance(5 * CHECK_MS)
    assert offsets(partition)[0] == 0


def test_a_topic_becomes_compacted_and_back() -> None:
    sim = Simulation(SETTINGS)
    partition = sim.topic("t", **SEGMENT).partition(0)
    fill(sim, partition, 30, keys=3)
    put(sim, TOPIC, cleanup_policy="compact")
    before = latest(partition)
    sim.advance(2000)
    assert latest(partition) == before
    assert len(offsets(partition)) < 8
    put(sim, TOPIC, cleanup_policy="delete", retention_ms="1")
    sim.advance(2 * CHECK_MS)
    assert len(offsets(partition)) < 3


def test_a_compacted_topic_requires_keys_at_once() -> None:
    client = SimulatedClient()
    client.sim.topic("t")
    assert produced(client, b"x", key=None)[0] == 0
    put(client.sim, TOPIC, cleanup_policy="compact")
    assert produced(client, b"x", key=None)[0] == ErrorCode.INVALID_RECORD
    unset(client.sim, TOPIC, "cleanup.policy")
    assert produced(client, b"x", key=None)[0] == 0


@for_each(
    "first, later",
    [
        ({"min_cleanable_dirty_ratio": "1"}, {"min_cleanable_dirty_ratio": "0.1"}),
        ({"min_compaction_lag_ms": "9000000"}, {"min_compaction_lag_ms": "0"}),
        ({"min_cleanable_dirty_ratio": "1"}, {"max_compaction_lag_ms": "1000"}),
    ],
)
def test_changed_setting_makes_a_log_due_for_compaction(first: dict[str, str], later: dict[str, str]) -> None:
    sim = Simulation(SETTINGS)
    partition = sim.topic("t", cleanup_policy="compact", **first, **SEGMENT).partition(0)
    fill(sim, partition, 30, keys=3)
    sim.advance(20_000)
    assert len(offsets(partition)) == 30
    put(sim, TOPIC, **later)
    sim.advance(20_000)
    assert len(offsets(partition)) < 8


def test_the_cleaner_follows_its_threads_and_interval() -> None:
    sim = Simulation({**SETTINGS, "log.cleaner.threads": 0})
    partition = sim.topic("t", cleanup_policy="compact", **SEGMENT).partition(0)
    fill(sim, partition, 30, keys=3)
    sim.advance(5000)
    assert len(offsets(partition)) == 30
    put(sim, DEFAULTS, log_cleaner_threads=1)
    sim.settle()
    assert len(offsets(partition)) < 8
    put(sim, DEFAULTS, log_cleaner_backoff_ms=60_000)
    fill(sim, partition, 30, keys=3)
    count = len(offsets(partition))
    sim.advance(50_000)
    assert len(offsets(partition)) == count
    put(sim, DEFAULTS, log_cleaner_backoff_ms=100)
    sim.advance(200)
    assert len(offsets(partition)) < 8


@for_each("retention_ms", [0, 86_400_000])
def test_tombstones_go_after_the_new_time(retention_ms: int) -> None:
    """The time counts from the compaction that first meets the tombstone, and stays with it."""
    sim = Simulation(SETTINGS)
    topic = sim.topic("t", cleanup_policy="compact", min_cleanable_dirty_ratio="0", **SEGMENT)
    partition = topic.partition(0)
    fill(sim, partition, 4, keys=2)
    append(sim, partition, b"key-0", None)
    put(sim, TOPIC, delete_retention_ms=retention_ms)
    for _ in range(2):
        fill(sim, partition, 5, keys=100)
        sim.advance(70_000)
    assert (b"key-0" in {record.key for record in records(partition)}) is (retention_ms > 0)


def test_files_of_dropped_segments_go_after_the_new_delay() -> None:
    sim = Simulation(SETTINGS)
    topic = sim.topic("t", retention_bytes="0", **SEGMENT)
    partition = topic.partition(0)
    fill(sim, partition, 10)
    put(sim, TOPIC, file_delete_delay_ms=3_600_000)
    sim.advance(2 * CHECK_MS)
    sim.advance(120_000)
    waiting = len(names(sim, topic, suffix=".deleted"))
    assert waiting
    put(sim, TOPIC, file_delete_delay_ms=1)
    fill(sim, partition, 10)
    sim.advance(2 * CHECK_MS)
    assert len(names(sim, topic, suffix=".deleted")) == waiting


# --- segments and flushes


def test_segments_roll_by_the_new_size() -> None:
    sim = Simulation(SETTINGS)
    partition = sim.topic("t").partition(0)
    fill(sim, partition, 10)
    assert len(bases(partition)) == 1
    put(sim, BROKER, log_segment_bytes=500)
    fill(sim, partition, 1)
    assert len(bases(partition)) == 2
    put(sim, TOPIC, segment_bytes=10_000)
    fill(sim, partition, 10)
    assert len(bases(partition)) == 2


def test_segments_roll_by_the_new_time() -> None:
    sim = Simulation(SETTINGS)
    partition = sim.topic("t", segment_jitter_ms="3600000").partition(0)
    fill(sim, partition, 3, every_ms=1000)
    assert len(bases(partition)) == 1
    put(sim, TOPIC, segment_ms=1500)
    fill(sim, partition, 1)
    assert len(bases(partition)) == 2
    put(sim, TOPIC, segment_jitter_ms=0, segment_ms=3_600_000)
    fill(sim, partition, 1)
    fill(sim, partition, 3, every_ms=2000)
    assert len(bases(partition)) <= 3


def test_an_index_of_the_new_size_rolls() -> None:
    sim = Simulation(SETTINGS)
    partition = sim.topic("t").partition(0)
    fill(sim, partition, 5)
    put(sim, TOPIC, index_interval_bytes=0, segment_index_bytes=24)
    fill(sim, partition, 10)
    assert len(bases(partition)) > 2


@for_each("values", [{"flush_messages": 1}, {"flush_ms": 500}])
def test_flushes_follow_their_settings(values: dict[str, object]) -> None:
    sim = Simulation({"kqueue.flush": "kafka"}, storage=FaultyStorage())
    log = sim.topic("t", flush_ms="86400000").partition(0).log
    partition = sim.broker.topics.partition("t", 0)
    fill(sim, partition, 2)
    sim.advance(1000)
    flushed = log.flushed_offset
    assert flushed < 2
    put(sim, TOPIC, **values)
    sim.settle()
    sim.advance(600)
    assert log.flushed_offset == 2, "what was not flushed yet counts too"
    unset(sim, TOPIC, next(iter(values)).replace("_", "."))
    fill(sim, partition, 3)
    sim.advance(1000)
    assert log.flushed_offset == 2


# --- what producers send


def test_batches_are_compressed_by_the_new_codec() -> None:
    client = SimulatedClient()
    partition = client.sim.topic("t").partition(0)

    def codec_of_last() -> int:
        offset = partition.log_end_offset
        assert produced(client, b"." * 5000, b"." * 5000)[0] == 0
        return read_header(partition.read_now(offset, 1 << 20).read()).codec_id

    codecs = [codec_of_last()]
    for resource, values in [
        (TOPIC, {"compression_type": "gzip"}),
        (TOPIC, {"compression_gzip_level": 9}),
        (TOPIC, {"compression_type": "producer"}),
        (BROKER, {"compression_type": "gzip"}),
    ]:
        put(client.sim, resource, **values)
        codecs.append(codec_of_last())
    unset(client.sim, TOPIC, "compression.type")
    codecs.append(codec_of_last())
    unset(client.sim, BROKER, "compression.type")
    codecs.append(codec_of_last())
    assert codecs == [0, 1, 1, 0, 0, 1, 0]
    assert client.sim.broker.topics.get("t").appender._level is None


def test_levels_of_compression_follow_their_settings() -> None:
    client = SimulatedClient()
    partition = client.sim.topic("t", compression_type="gzip", compression_gzip_level="1").partition(0)
    text = b"".join(b"%d, %d; " % (number, number * number) for number in range(2000))
    sizes = []
    for level in (9, 1):
        put(client.sim, TOPIC, compression_gzip_level=level)
        size = partition.log.segments.size
        assert produced(client, text)[0] == 0
        sizes.append(partition.log.segments.size - size)
    assert sizes[0] < sizes[1]


def test_timestamps_follow_their_settings() -> None:
    client = SimulatedClient()
    client.sim.topic("t")
    assert produced(client, b"x") == (0, -1)
    put(client.sim, DEFAULTS, log_message_timestamp_type="LogAppendTime")
    assert produced(client, b"x") == (0, NOW_MS)
    put(client.sim, TOPIC, message_timestamp_type="CreateTime", message_timestamp_before_max_ms=1000)
    assert produced(client, b"x", time_ms=NOW_MS - 5000)[0] == ErrorCode.INVALID_TIMESTAMP
    unset(client.sim, TOPIC, "message.timestamp.before.max.ms")
    assert produced(client, b"x", time_ms=NOW_MS - 5000) == (0, -1)
    assert produced(client, b"x", time_ms=NOW_MS + 5000) == (0, -1)
    put(client.sim, BROKER, log_message_timestamp_after_max_ms=1000)
    assert produced(client, b"x", time_ms=NOW_MS + 5000)[0] == ErrorCode.INVALID_TIMESTAMP


def test_the_largest_batch_follows_its_setting() -> None:
    client = SimulatedClient()
    client.sim.topic("t")
    assert produced(client, b"." * 5000)[0] == 0
    put(client.sim, DEFAULTS, message_max_bytes=1000)
    assert produced(client, b"." * 5000)[0] == ErrorCode.MESSAGE_TOO_LARGE
    put(client.sim, TOPIC, max_message_bytes=6000)
    assert produced(client, b"." * 5000)[0] == 0


def test_the_bound_of_a_backlog_follows_its_setting() -> None:
    client = SimulatedClient()
    client.sim.topic("t")
    assert produced(client, *[b"x"] * 5)[0] == 0
    put(client.sim, TOPIC, kqueue_backlog_messages_max=3)
    assert produced(client, b"x")[0] == ErrorCode.POLICY_VIOLATION
    put(client.sim, TOPIC, kqueue_backlog_messages_max=100)
    assert produced(client, b"x")[0] == 0


def test_single_replica_satisfies_any_min_insync_replicas() -> None:
    """As Kafka: the replicas that a partition has are the most that can be required."""
    client = SimulatedClient()
    client.sim.topic("t")
    put(client.sim, TOPIC, min_insync_replicas=2)
    assert produced(client, b"x")[0] == 0


# --- the broker


def test_idle_producers_expire_after_the_new_time() -> None:
    client = SimulatedClient({"producer.id.expiration.check.interval.ms": 1000})
    log = client.sim.topic("t").partition(0).log
    data = batch(b"x", producer_id=5, epoch=0, base_sequence=0)
    assert client.produce("t", data).error_code == 0
    client.sim.advance(10_000)
    assert len(log.producers) == 1
    put(client.sim, DEFAULTS, producer_id_expiration_ms=5000)
    client.sim.advance(1000)
    assert len(log.producers) == 0


def test_the_bound_on_partitions_can_be_raised() -> None:
    sim = Simulation({"kqueue.max.partitions": 1})
    sim.topic("t")
    put(sim, DEFAULTS, kqueue_max_partitions=2)
    sim.result(sim.broker.topics.create(NewTopic("u", 1)))


def test_every_value_is_in_force_again_after_a_restart() -> None:
    sim = Simulation({**SETTINGS, "kqueue.storage": "local"})
    sim.topic("t")
    put(sim, TOPIC, segment_ms=77)
    put(sim, DEFAULTS, log_segment_bytes=500, producer_id_expiration_ms=5000)
    sim.stop()
    restarted = sim.restarted()
    partition = restarted.broker.topics.partition("t", 0)
    fill(restarted, partition, 9)
    assert len(bases(partition)) > 3
    assert partition.log.config.segment_ms == 77
    assert restarted.logs.producer_expiration_ms == 5000


def test_many_topics_get_a_brokers_value_before_the_answer() -> None:
    sim = Simulation({"kqueue.storage": "memory"}, storage=MemoryStorage())
    topics = [sim.topic(f"t{number}") for number in range(300)]
    own = sim.topic("own", segment_bytes="9000")
    put(sim, DEFAULTS, log_segment_bytes=500)
    assert {topic.log_config.segment_bytes for topic in topics} == {500}
    assert own.log_config.segment_bytes == 9000
