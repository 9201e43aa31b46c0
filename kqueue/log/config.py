"""The settings of logs: the broker's own, and what a log reads of its topic's."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kqueue.base.settings import ANY, KiB, MiB, Scope, Setting, SettingType, TopicConfig, Validator, at_least, one_of
from kqueue.log.topic_settings import DAY_MS, LOG_APPEND_TIME, MINUTE_MS, TOPIC_SETTINGS

BROKER_SETTINGS: tuple[Setting, ...] = (
    Setting(
        "kqueue.flush",
        SettingType.STRING,
        "group",
        one_of("group", "kafka"),
        Scope.BROKER,
        "group: nothing is visible or confirmed with acks=all before it is flushed, one fsync serves all that wait. "
        "kafka: the page cache is trusted, and flush.messages and flush.ms hold.",
    ),
    Setting(
        "kqueue.verify.reads",
        SettingType.BOOLEAN,
        True,
        ANY,
        Scope.BROKER,
        "Compare the checksums of what was on the disk when a log was opened, once, before it is first served; "
        "what is damaged is refused. "
        "What this broker has written since costs nothing.",
    ),
    Setting(
        "producer.id.expiration.ms",
        SettingType.INT,
        DAY_MS,
        at_least(1),
        Scope.BROKER,
        "Forget an idempotent producer this long after its last batch.",
    ),
    Setting(
        "kqueue.max.producer.ids",
        SettingType.INT,
        100_000,
        at_least(1),
        Scope.BROKER,
        "Idempotent producers that all partitions remember together, one per partition that it writes to; beyond "
        "that those that have been "
        "idle for the longest are forgotten, as if they had expired.",
    ),
    Setting(
        "producer.id.expiration.check.interval.ms",
        SettingType.INT,
        10 * MINUTE_MS,
        at_least(1),
        Scope.BROKER,
        "How often expired producers are looked for.",
    ),
    Setting(
        "log.retention.check.interval.ms",
        SettingType.LONG,
        5 * MINUTE_MS,
        at_least(1),
        Scope.BROKER,
        "How often it is looked for segments that retention, or another cleanup policy, lets go.",
    ),
    Setting(
        "kqueue.cleanup.work.max",
        SettingType.INT,
        1,
        at_least(0),
        Scope.BROKER,
        "Logs at the same time whose segments a cleanup policy works on, in a process for each, before it lets "
        "them go.",
    ),
    Setting(
        "kqueue.disk.reserve.bytes",
        SettingType.LONG,
        -1,
        at_least(-1),
        Scope.BROKER,
        "Refuse producers (KAFKA_STORAGE_ERROR, which they retry) while a data folder's disk has fewer free bytes, "
        "so that groups, "
        "checkpoints and deletions still have room. -1: a hundredth of the disk, at most 64 MiB. 0: only where the "
        "disk is full.",
    ),
    Setting(
        "log.cleaner.enable",
        SettingType.BOOLEAN,
        True,
        ANY,
        Scope.BROKER,
        "Compact the topics whose cleanup.policy asks for it.",
    ),
    Setting(
        "log.cleaner.threads",
        SettingType.INT,
        1,
        at_least(0),
        Scope.BROKER,
        "Logs that are compacted at the same time.",
    ),
    Setting(
        "log.cleaner.backoff.ms",
        SettingType.LONG,
        15_000,
        at_least(1),
        Scope.BROKER,
        "How often it is looked for logs to compact.",
    ),
    Setting(
        "log.cleaner.dedupe.buffer.size",
        SettingType.LONG,
        128 * MiB,
        at_least(1024),
        Scope.BROKER,
        "Most bytes of memory for the keys of all compactions at the same time, 24 for each key.",
    ),
    Setting(
        "log.cleaner.io.buffer.load.factor",
        SettingType.DOUBLE,
        0.9,
        Validator("above 0, and at most 1", lambda value: 0 < value <= 1),
        Scope.BROKER,
        "How full the table of keys may get, as a share of it; fuller takes more keys at once, and more time for each.",
    ),
    Setting(
        "log.cleaner.io.buffer.size",
        SettingType.INT,
        512 * KiB,
        at_least(1024),
        Scope.BROKER,
        "Bytes that all compactions read ahead together.",
    ),
    Setting(
        "log.cleaner.io.max.bytes.per.second",
        SettingType.DOUBLE,
        sys.float_info.max,
        Validator("above 0", lambda value: value > 0),
        Scope.BROKER,
        "Most bytes that all compactions read and write in a second.",
    ),
)

SETTINGS: tuple[Setting, ...] = TOPIC_SETTINGS + BROKER_SETTINGS
_DEFAULTS: dict[str, Any] = {row.name: row.default for row in TOPIC_SETTINGS}


@dataclass(frozen=True, slots=True)
class LogConfig:
    """What a log reads again and again; see the rows for meanings. Sizes in bytes, times in ms."""

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

    @classmethod
    def from_values(cls, values: TopicConfig | Mapping[str, Any]) -> LogConfig:
        """Take the values out of a topic's settings, or of any mapping that has every topic row."""
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
        )

    @classmethod
    def of(cls, **overrides: Any) -> LogConfig:
        """The defaults, but for these settings, e.g. ``LogConfig.of(segment_bytes=1000)`` for
        segment.bytes; parsed and checked.

        Raises SettingError: a bad value. KeyError: no such setting.
        """
        rows = {row.name: row for row in TOPIC_SETTINGS}
        parsed = {
            name: rows[name].parse(value)
            for name, value in ((key.replace("_", "."), item) for key, item in overrides.items())
        }
        return cls.from_values({**_DEFAULTS, **parsed})


__all__ = ["BROKER_SETTINGS", "SETTINGS", "TOPIC_SETTINGS", "LogConfig"]
