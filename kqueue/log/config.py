"""Settings of logs at broker level, and `LogConfig`, the topic settings that a log reads."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kqueue.base.config import TopicConfig
from kqueue.base.settings import (
    ANY,
    LONG_MAX,
    KiB,
    MiB,
    Scope,
    Setting,
    SettingType,
    UpdateMode,
    Validator,
    at_least,
    one_of,
)
from kqueue.log.topic_settings import DAY_MS, LOG_APPEND_TIME, MINUTE_MS, TOPIC_SETTINGS

BROKER_SETTINGS: tuple[Setting, ...] = (
    Setting(
        "kqueue.flush",
        SettingType.STRING,
        "group",
        one_of("group", "kafka"),
        Scope.BROKER,
        "group: a record becomes visible, and acks=all and 1 are answered, only after a flush; one fsync "
        "serves all waiting requests. kafka: acknowledged records may be only in the page cache, and "
        "flush.messages and flush.ms apply.",
    ),
    Setting(
        "kqueue.verify.reads",
        SettingType.BOOLEAN,
        True,
        ANY,
        Scope.BROKER,
        "Verify the checksums of data that was on disk when the log was opened, once, before it is first "
        "served, and refuse damaged data. Data that this broker has written since then is not verified.",
    ),
    Setting(
        "producer.id.expiration.ms",
        SettingType.INT,
        DAY_MS,
        at_least(1),
        Scope.BROKER,
        "Remove the state of an idempotent producer this long after its last batch.",
        dynamic=UpdateMode.CLUSTER_WIDE,
    ),
    Setting(
        "kqueue.max.producer.ids",
        SettingType.INT,
        100_000,
        at_least(1),
        Scope.BROKER,
        "Maximum number of idempotent producers in memory, counted once per partition that each writes "
        "to. Above it, the longest idle ones are removed, as if expired.",
    ),
    Setting(
        "producer.id.expiration.check.interval.ms",
        SettingType.INT,
        10 * MINUTE_MS,
        at_least(1),
        Scope.BROKER,
        "Interval between checks for expired producers.",
    ),
    Setting(
        "log.retention.check.interval.ms",
        SettingType.LONG,
        5 * MINUTE_MS,
        at_least(1),
        Scope.BROKER,
        "Interval between checks for segments that retention or another cleanup policy deletes.",
    ),
    Setting(
        "kqueue.cleanup.work.max",
        SettingType.INT,
        1,
        at_least(0),
        Scope.BROKER,
        "Maximum number of logs that a cleanup policy processes at the same time before their segments "
        "are deleted, each in its own process.",
        dynamic=UpdateMode.CLUSTER_WIDE,
    ),
    Setting(
        "kqueue.disk.reserve.bytes",
        SettingType.LONG,
        -1,
        at_least(-1),
        Scope.BROKER,
        "Refuse producers (KAFKA_STORAGE_ERROR, which they retry) while a data folder's disk has fewer "
        "free bytes than this, so that groups, checkpoints and deletions still have space. -1: a "
        "hundredth of the disk, at most 64 MiB. 0: only when the disk is full.",
    ),
    Setting(
        "replica.alter.log.dirs.io.max.bytes.per.second",
        SettingType.LONG,
        LONG_MAX,
        at_least(1),
        Scope.BROKER,
        "Maximum rate at which logs are copied when they are moved between data folders.",
        dynamic=UpdateMode.PER_BROKER,
    ),
    Setting(
        "log.cleaner.enable",
        SettingType.BOOLEAN,
        True,
        ANY,
        Scope.BROKER,
        "Compact the topics whose cleanup.policy includes compact.",
    ),
    Setting(
        "log.cleaner.threads",
        SettingType.INT,
        1,
        at_least(0),
        Scope.BROKER,
        "Maximum number of logs that are compacted at the same time.",
        dynamic=UpdateMode.CLUSTER_WIDE,
    ),
    Setting(
        "log.cleaner.backoff.ms",
        SettingType.LONG,
        15_000,
        at_least(1),
        Scope.BROKER,
        "Interval between checks for logs to compact.",
        dynamic=UpdateMode.CLUSTER_WIDE,
    ),
    Setting(
        "log.cleaner.dedupe.buffer.size",
        SettingType.LONG,
        128 * MiB,
        at_least(1024),
        Scope.BROKER,
        "Maximum memory in bytes for the keys of all running compactions, 24 for each key.",
        dynamic=UpdateMode.CLUSTER_WIDE,
    ),
    Setting(
        "log.cleaner.io.buffer.load.factor",
        SettingType.DOUBLE,
        0.9,
        Validator("above 0, and at most 1", lambda value: 0 < value <= 1),
        Scope.BROKER,
        "Maximum load factor of the key table. A higher value processes more keys at once and takes longer for each.",
        dynamic=UpdateMode.CLUSTER_WIDE,
    ),
    Setting(
        "log.cleaner.io.buffer.size",
        SettingType.INT,
        512 * KiB,
        at_least(1024),
        Scope.BROKER,
        "Bytes that all running compactions together read ahead.",
        dynamic=UpdateMode.CLUSTER_WIDE,
    ),
    Setting(
        "log.cleaner.io.max.bytes.per.second",
        SettingType.DOUBLE,
        sys.float_info.max,
        Validator("above 0", lambda value: value > 0),
        Scope.BROKER,
        "Maximum number of bytes that all compactions together read and write per second.",
        dynamic=UpdateMode.CLUSTER_WIDE,
    ),
)

SETTINGS: tuple[Setting, ...] = TOPIC_SETTINGS + BROKER_SETTINGS
_DEFAULTS: dict[str, Any] = {row.name: row.default for row in TOPIC_SETTINGS}


@dataclass(frozen=True, slots=True)
class LogConfig:
    """Topic settings that a log reads often; see their help texts. Sizes in bytes, times in ms.

    tiered: records below the first segment may be in a remote tier (`remote.storage.enable`).
    """

    segment_bytes: int
    segment_ms: int
    segment_jitter_ms: int
    segment_index_bytes: int
    index_interval_bytes: int
    flush_messages: int
    flush_ms: int
    log_append_time: bool
    compacted: bool
    file_delete_delay_ms: int
    tiered: bool = False

    @classmethod
    def from_values(cls, values: TopicConfig | Mapping[str, Any]) -> LogConfig:
        """Return the values of a topic's settings, or of a mapping that has every topic setting."""
        compacted = "compact" in values["cleanup.policy"]
        return cls(
            segment_bytes=values["segment.bytes"],
            segment_ms=min(values["segment.ms"], values["max.compaction.lag.ms"])
            if compacted
            else values["segment.ms"],
            segment_jitter_ms=values["segment.jitter.ms"],
            segment_index_bytes=values["segment.index.bytes"],
            index_interval_bytes=values["index.interval.bytes"],
            flush_messages=values["flush.messages"],
            flush_ms=values["flush.ms"],
            log_append_time=values["message.timestamp.type"] == LOG_APPEND_TIME,
            compacted=compacted,
            file_delete_delay_ms=values["file.delete.delay.ms"],
            tiered=values["remote.storage.enable"],
        )

    @classmethod
    def of(cls, **overrides: Any) -> LogConfig:
        """Return the defaults with these overrides, parsed and checked.

        ``LogConfig.of(segment_bytes=1000)`` sets segment.bytes.

        Raises:
            SettingError: an invalid value.
            KeyError: no such setting.
        """
        rows = {row.name: row for row in TOPIC_SETTINGS}
        parsed = {
            name: rows[name].parse(value)
            for name, value in ((key.replace("_", "."), item) for key, item in overrides.items())
        }
        return cls.from_values({**_DEFAULTS, **parsed})


__all__ = ["BROKER_SETTINGS", "SETTINGS", "TOPIC_SETTINGS", "LogConfig"]
