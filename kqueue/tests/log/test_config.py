from __future__ import annotations

from typing import Any

import pytest

from kqueue.base.config import Config, ConfigSource
from kqueue.base.errors import SettingError
from kqueue.base.settings import Catalog, SettingType
from kqueue.log.config import BROKER_SETTINGS, SETTINGS, LogConfig
from kqueue.tests.tables import for_each


@for_each(
    "broker, topic, value",
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
    log_config = LogConfig.from_values(config)
    assert (
        log_config.segment_bytes,
        log_config.compacted,
        log_config.log_append_time,
        log_config.index_interval_bytes,
    ) == (
        5000,
        True,
        True,
        10,
    )
    assert log_config.flush_ms == LogConfig.of().flush_ms
    assert not LogConfig.of().compacted


def test_segments_of_compacted_topics_end_in_time_to_be_compacted() -> None:
    """S3.5, S5.2"""
    assert LogConfig.of(cleanup_policy="compact,delete", max_compaction_lag_ms=5000).segment_ms == 5000
    assert LogConfig.of(cleanup_policy="compact", max_compaction_lag_ms=5000, segment_ms=4000).segment_ms == 4000
    assert LogConfig.of(cleanup_policy="delete", max_compaction_lag_ms=5000, segment_ms=6000).segment_ms == 6000


def test_keywords_are_checked_like_settings() -> None:
    assert LogConfig.of(segment_bytes=100).segment_bytes == 100
    with pytest.raises(SettingError, match="at least 14"):
        LogConfig.of(segment_bytes=3)
    with pytest.raises(KeyError):
        LogConfig.of(segment_byte=100)


def test_flushing_is_a_setting_of_the_broker() -> None:
    rows = {row.name: row for row in BROKER_SETTINGS}
    assert rows["kqueue.flush"].default == "group"
    assert rows["kqueue.flush"].kind is SettingType.STRING
    with pytest.raises(SettingError, match="one of group, kafka"):
        rows["kqueue.flush"].parse("never")
    assert rows["producer.id.expiration.ms"].default == 86_400_000
