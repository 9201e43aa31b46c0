from __future__ import annotations

import re
from typing import Any

import pytest

from kqueue.base.errors import SettingError
from kqueue.base.settings import Catalog, Config, ConfigSource, Scope, SettingType, format_value
from kqueue.log.config import BROKER_SETTINGS, SETTINGS, TOPIC_SETTINGS, LogConfig

KAFKA = {  # Kafka 4.3's topic settings with their defaults
    "cleanup.policy": "delete", "compression.gzip.level": "-1", "compression.lz4.level": "9", "compression.type": "producer",
    "compression.zstd.level": "3", "delete.retention.ms": "86400000", "file.delete.delay.ms": "60000",
    "flush.messages": "9223372036854775807", "flush.ms": "9223372036854775807", "follower.replication.throttled.replicas": "",
    "index.interval.bytes": "4096", "leader.replication.throttled.replicas": "", "local.retention.bytes": "-2",
    "local.retention.ms": "-2", "max.compaction.lag.ms": "9223372036854775807", "max.message.bytes": "1048588",
    "message.timestamp.after.max.ms": "3600000", "message.timestamp.before.max.ms": "9223372036854775807",
    "message.timestamp.type": "CreateTime", "min.cleanable.dirty.ratio": "0.5", "min.compaction.lag.ms": "0",
    "min.insync.replicas": "1", "preallocate": "false", "remote.log.copy.disable": "false", "remote.log.delete.on.disable": "false",
    "remote.storage.enable": "false", "retention.bytes": "-1", "retention.ms": "604800000", "segment.bytes": "1073741824",
    "segment.index.bytes": "10485760", "segment.jitter.ms": "0", "segment.ms": "604800000", "unclean.leader.election.enable": "false",
}  # fmt: skip


def test_every_topic_setting_of_kafka_is_a_row_with_its_default() -> None:
    assert {
        row.name: format_value(row.default) for row in TOPIC_SETTINGS if not row.name.startswith("kqueue.")
    } == KAFKA
    assert all(row.scope is Scope.TOPIC and row.doc for row in TOPIC_SETTINGS)


def test_defaults_are_valid_themselves() -> None:
    for row in SETTINGS:
        assert row.parse(row.default) == row.default
        assert row.parse(format_value(row.default)) == row.default


@pytest.mark.parametrize(
    ("broker", "topic", "value"),
    [
        ({"log.roll.hours": 2}, "segment.ms", 7_200_000),
        ({"log.roll.hours": 2, "log.roll.ms": 5}, "segment.ms", 5),
        ({"log.retention.hours": 1}, "retention.ms", 3_600_000),
        ({"log.retention.hours": 1, "log.retention.minutes": 2}, "retention.ms", 120_000),
        ({"log.retention.hours": -1}, "retention.ms", -1),
        ({"log.retention.minutes": 2, "log.retention.ms": 7}, "retention.ms", 7),
        ({"log.flush.scheduler.interval.ms": 9}, "flush.ms", 9),
        ({"log.flush.scheduler.interval.ms": 9, "log.flush.interval.ms": 8}, "flush.ms", 8),
        ({"message.max.bytes": 77}, "max.message.bytes", 77),
        ({"log.segment.delete.delay.ms": 1}, "file.delete.delay.ms", 1),
        ({"log.index.size.max.bytes": 80}, "segment.index.bytes", 80),
        ({"log.cleanup.policy": "compact,delete"}, "cleanup.policy", ["compact", "delete"]),
    ],
)
def test_the_brokers_settings_give_the_topics_their_defaults(broker: dict[str, object], topic: str, value: Any) -> None:
    config = Config(Catalog(SETTINGS), broker).for_topic({})
    assert config[topic] == value
    assert config.chain(topic)[0].source is ConfigSource.STATIC_BROKER


def test_a_log_reads_its_values_from_the_topic() -> None:
    config = Config(Catalog(SETTINGS), {"log.segment.bytes": 5000}).for_topic(
        {"cleanup.policy": "compact", "message.timestamp.type": "LogAppendTime", "index.interval.bytes": "10"}
    )
    found = LogConfig.from_values(config)
    assert (found.segment_bytes, found.compacted, found.log_append_time, found.index_interval_bytes) == (
        5000,
        True,
        True,
        10,
    )
    assert found.flush_ms == LogConfig.of().flush_ms
    assert not LogConfig.of().compacted


def test_segments_of_compacted_topics_end_in_time_to_be_compacted() -> None:
    """S3.5, S5.2"""
    assert LogConfig.of(cleanup_policy="compact,delete", max_compaction_lag_ms=5000).segment_ms == 5000
    assert LogConfig.of(cleanup_policy="compact", max_compaction_lag_ms=5000, segment_ms=4000).segment_ms == 4000
    assert LogConfig.of(cleanup_policy="delete", max_compaction_lag_ms=5000, segment_ms=6000).segment_ms == 6000


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("delete", ["delete"]),
        ("compact,delete", ["compact", "delete"]),
        ("[delete, consumed]", ["delete", "consumed"]),
    ],
)
def test_a_topic_may_have_several_policies(text: str, names: list[str]) -> None:
    assert Config(Catalog(SETTINGS)).for_topic({"cleanup.policy": text})["cleanup.policy"] == names


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("compect", "no cleanup policy is called 'compect'; did you mean 'compact'? (there are: "),
        ("delete,shred", "cleanup.policy=delete,shred: no cleanup policy is called 'shred'"),
        ("delete,delete", "expected a comma-separated list, names of cleanup policies"),
        ("", "expected a comma-separated list, names of cleanup policies"),
    ],
)
def test_policies_that_are_not_there_are_refused_with_those_that_are(text: str, words: str) -> None:
    with pytest.raises(SettingError, match=re.escape(words)):
        Config(Catalog(SETTINGS), {"log.cleanup.policy": text})


def test_keywords_are_checked_like_settings() -> None:
    assert LogConfig.of(segment_bytes=100).segment_bytes == 100
    with pytest.raises(SettingError, match="at least 14"):
        LogConfig.of(segment_bytes=3)
    with pytest.raises(KeyError):
        LogConfig.of(segment_byte=100)


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("compression.gzip.level", 0),
        ("compression.zstd.level", 23),
        ("cleanup.policy", "compress"),
        ("retention.ms", -2),
        ("flush.messages", 0),
    ],
)
def test_values_that_kafka_refuses_are_refused(name: str, bad: object) -> None:
    row = next(row for row in TOPIC_SETTINGS if row.name == name)
    with pytest.raises(SettingError):
        row.parse(bad)


def test_flushing_is_a_setting_of_the_broker() -> None:
    rows = {row.name: row for row in BROKER_SETTINGS}
    assert rows["kqueue.flush"].default == "group"
    assert rows["kqueue.flush"].kind is SettingType.STRING
    with pytest.raises(SettingError, match="one of group, kafka"):
        rows["kqueue.flush"].parse("never")
    assert rows["producer.id.expiration.ms"].default == 86_400_000
