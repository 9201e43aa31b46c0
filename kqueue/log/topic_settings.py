"""Kafka's topic settings, each with its broker-wide default.

Kafka's tools show and set all of them. The help text of a setting without effect says so.
"""

from __future__ import annotations

import re
from typing import Any

from kqueue.base.errors import PluginError
from kqueue.base.settings import (
    ANY,
    LONG_MAX,
    GiB,
    MiB,
    Scope,
    Setting,
    SettingType,
    Synonym,
    Validator,
    at_least,
    between,
    one_of,
)
from kqueue.log.policies import POLICIES
from kqueue.records.partitioners import DEFAULT as PARTITIONER_DEFAULT

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
NEVER = "Accepted and shown for Kafka's tools; has no effect in kqueue."
LOG_APPEND_TIME = "LogAppendTime"


def _row(name: str, kind: SettingType, default: Any, valid: Validator, doc: str, *synonyms: str | Synonym) -> Setting:
    named = tuple(Synonym(item) if isinstance(item, str) else item for item in synonyms)
    return Setting(name, kind, default, valid, Scope.TOPIC, doc, named, NEVER in doc)


def _replicas_row(name: str, kind: SettingType, default: Any, valid: Validator, doc: str) -> Setting:
    return Setting(name, kind, default, valid, Scope.TOPIC, doc, (Synonym(name),), cluster_only=True)


def _throttled_row(name: str, doc: str) -> Setting:
    words = (
        f"{name} must be the literal '*' or a list of replicas in the following format: "
        "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
    )
    valid = Validator(
        "* or a list of partition:broker, as 0:1,1:2",
        _are_replicas,
        lambda value: words,
        lambda value: f"[{', '.join(value)}]",
    )
    return Setting(name, SettingType.LIST, [], valid, Scope.TOPIC, doc, cluster_only=True)


def _are_replicas(value: list[str]) -> bool:
    return value == ["*"] or all(re.fullmatch("[0-9]+:[0-9]+", item) for item in value)


def _policies(value: list[str]) -> bool:
    """Check that there are cleanup policies of these names."""
    return not any(map(_unknown_policy, value))


def _unknown_policy(name: str) -> str:
    """Return why there is no such policy; empty: there is."""
    try:
        POLICIES.get(name)
    except PluginError as error:
        return str(error)
    return ""


POLICY_NAMES = Validator(
    "names of cleanup policies",
    _policies,
    lambda value: f"String must be one of: compact, delete; {next(filter(None, map(_unknown_policy, value)))}",
    lambda value: next(name for name in value if _unknown_policy(name)),
)


def _gzip_level(value: int) -> bool:
    return value == -1 or 1 <= value <= 9


TOPIC_SETTINGS: tuple[Setting, ...] = (
    # segments
    _row(
        "segment.bytes",
        SettingType.INT,
        GiB,
        at_least(14),
        "Roll when the active segment would exceed this size.",
        "log.segment.bytes",
    ),
    _row(
        "segment.ms",
        SettingType.LONG,
        7 * DAY_MS,
        at_least(1),
        "Roll when a batch arrives whose timestamp exceeds the segment's first timestamp by this time.",
        "log.roll.ms",
        Synonym("log.roll.hours", HOUR_MS),
    ),
    _row(
        "segment.jitter.ms",
        SettingType.LONG,
        0,
        at_least(0),
        "Roll up to this much earlier than segment.ms, at random, so that many logs do not roll at once.",
        "log.roll.jitter.ms",
        Synonym("log.roll.jitter.hours", HOUR_MS),
    ),
    _row(
        "segment.index.bytes",
        SettingType.INT,
        10 * MiB,
        at_least(4),
        "Roll when an index reaches this size.",
        "log.index.size.max.bytes",
    ),
    _row(
        "index.interval.bytes",
        SettingType.INT,
        4096,
        at_least(0),
        "Bytes of log between two index entries.",
        "log.index.interval.bytes",
    ),
    _row(
        "preallocate",
        SettingType.BOOLEAN,
        False,
        ANY,
        f"Create segment files at full size. {NEVER} Files grow.",
        "log.preallocate",
    ),
    # flushing
    _row(
        "flush.messages",
        SettingType.LONG,
        LONG_MAX,
        at_least(1),
        "With kqueue.flush=kafka: flush when this many records are not flushed.",
        "log.flush.interval.messages",
    ),
    _row(
        "flush.ms",
        SettingType.LONG,
        LONG_MAX,
        at_least(0),
        "With kqueue.flush=kafka: flush at most this long after an append.",
        "log.flush.interval.ms",
        "log.flush.scheduler.interval.ms",
    ),
    # validation and compression
    _row(
        "max.message.bytes",
        SettingType.INT,
        MiB + 12,
        at_least(0),
        "Maximum size of a batch that the broker accepts, in bytes.",
        "message.max.bytes",
    ),
    _row(
        "message.timestamp.type",
        SettingType.STRING,
        "CreateTime",
        one_of("CreateTime", LOG_APPEND_TIME),
        "Timestamp of a record: the producer's (CreateTime) or the time of the append (LogAppendTime).",
        "log.message.timestamp.type",
    ),
    _row(
        "message.timestamp.before.max.ms",
        SettingType.LONG,
        LONG_MAX,
        at_least(0),
        "Refuse records whose timestamp is further in the past than this.",
        "log.message.timestamp.before.max.ms",
    ),
    _row(
        "message.timestamp.after.max.ms",
        SettingType.LONG,
        HOUR_MS,
        at_least(0),
        "Refuse records whose timestamp is further in the future than this.",
        "log.message.timestamp.after.max.ms",
    ),
    _row(
        "compression.type",
        SettingType.STRING,
        "producer",
        one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        "Codec of the stored batches. producer keeps the codec of the producer.",
        "compression.type",
    ),
    _row(
        "compression.gzip.level",
        SettingType.INT,
        -1,
        Validator("from 1 to 9, or -1", _gzip_level, lambda value: "Value must be between 1 and 9 or equal to -1"),
        "Compression level when the broker compresses with gzip.",
        "compression.gzip.level",
    ),
    _row(
        "compression.lz4.level",
        SettingType.INT,
        9,
        between(1, 17),
        "Compression level when the broker compresses with lz4.",
        "compression.lz4.level",
    ),
    _row(
        "compression.zstd.level",
        SettingType.INT,
        3,
        between(-131072, 22),
        "Compression level when the broker compresses with zstd.",
        "compression.zstd.level",
    ),
    _row(
        "kqueue.partitioner",
        SettingType.STRING,
        PARTITIONER_DEFAULT,
        Validator("the name of a partitioner", bool),
        "Partitioner of kqueue's own producers, so that all of them assign a key to the same partition. "
        "Other clients have their own settings.",
    ),
    # cleanup
    _row(
        "cleanup.policy",
        SettingType.LIST,
        ["delete"],
        POLICY_NAMES,
        "delete: delete old segments. compact: keep the last value of each key and require keys. "
        "consumed: delete what the groups of kqueue.consumed.groups have consumed. Several policies can "
        "be named, including those of plugins. Without any, all records stay (KIP-1161).",
        "log.cleanup.policy",
    ),
    _row(
        "retention.ms",
        SettingType.LONG,
        7 * DAY_MS,
        at_least(-1),
        "With cleanup.policy=delete: delete segments whose records are all older than this. -1 never deletes them.",
        "log.retention.ms",
        Synonym("log.retention.minutes", MINUTE_MS),
        Synonym("log.retention.hours", HOUR_MS),
    ),
    _row(
        "retention.bytes",
        SettingType.LONG,
        -1,
        at_least(-1),
        "With cleanup.policy=delete: delete the oldest segments while the rest stays at or above this "
        "size. -1: no limit.",
        "log.retention.bytes",
    ),
    _row(
        "delete.retention.ms",
        SettingType.LONG,
        DAY_MS,
        at_least(0),
        "Time for which compaction keeps a tombstone after it first processed it.",
        "log.cleaner.delete.retention.ms",
    ),
    _row(
        "file.delete.delay.ms",
        SettingType.LONG,
        MINUTE_MS,
        at_least(0),
        "Time for which the files of deleted and rewritten segments stay under their .deleted names.",
        "log.segment.delete.delay.ms",
    ),
    _row(
        "min.cleanable.dirty.ratio",
        SettingType.DOUBLE,
        0.5,
        between(0, 1),
        "Compact when more than this share of the log is dirty, that is, not compacted yet.",
        "log.cleaner.min.cleanable.ratio",
    ),
    _row(
        "min.compaction.lag.ms",
        SettingType.LONG,
        0,
        at_least(0),
        "Do not compact segments that hold a record younger than this.",
        "log.cleaner.min.compaction.lag.ms",
    ),
    _row(
        "max.compaction.lag.ms",
        SettingType.LONG,
        LONG_MAX,
        at_least(1),
        "Compact records at most this long after their append, however little is dirty. Segments of "
        "compacted topics roll after this time.",
        "log.cleaner.max.compaction.lag.ms",
    ),
    _row(
        "kqueue.consumed.groups",
        SettingType.LIST,
        [],
        ANY,
        "With cleanup.policy=consumed: delete sealed segments once all these groups have committed "
        "offsets beyond them. A group without an offset blocks deletion, and so does an empty list.",
    ),
    _row(
        "kqueue.records.validation",
        SettingType.STRING,
        "quick",
        one_of("header", "quick", "full"),
        "Checks of a produced batch in addition to its header and checksum. quick: compare the record "
        "count with the first and last record, or with the codec's frame if compressed. full: read every "
        "record, as Kafka does. Topics that are compacted or set message.timestamp.before.max.ms always "
        "use full.",
    ),
    # replicas
    _replicas_row(
        "min.insync.replicas",
        SettingType.INT,
        1,
        at_least(1),
        "In-sync replicas, the leader included, without which acks=all is refused and nothing is committed.",
    ),
    _replicas_row(
        "unclean.leader.election.enable",
        SettingType.BOOLEAN,
        False,
        ANY,
        "Allow a replica that may lack committed records to become leader where no other can. Those records are lost.",
    ),
    _throttled_row(
        "leader.replication.throttled.replicas",
        "Replicas out of sync of these partitions, as partition:broker of the leader, or *, are sent no more than "
        "leader.replication.throttled.rate.",
    ),
    _throttled_row(
        "follower.replication.throttled.replicas",
        "Replicas out of sync of these partitions, as partition:broker of the follower, or *, fetch no more than "
        "follower.replication.throttled.rate.",
    ),
    # tiered storage
    _row(
        "remote.storage.enable",
        SettingType.BOOLEAN,
        False,
        ANY,
        "Copy sealed segments to the tier, and read from it what is deleted here. Needs "
        "remote.log.storage.system.enable=true at the brokers, and cleanup.policy=delete. It can only be disabled "
        "with remote.log.delete.on.disable=true.",
    ),
    _row(
        "remote.log.copy.disable",
        SettingType.BOOLEAN,
        False,
        ANY,
        "Copy nothing more to the tier, and go on to read from it. What is not in the tier is kept by retention.ms "
        "and retention.bytes then.",
    ),
    _row(
        "remote.log.delete.on.disable",
        SettingType.BOOLEAN,
        False,
        ANY,
        "Delete what is in the tier when remote.storage.enable becomes false. The log then starts at what is here.",
    ),
    _row(
        "local.retention.ms",
        SettingType.LONG,
        -2,
        at_least(-2),
        "With remote.storage.enable=true: retention.ms of the segments here that are in the tier too; -2 uses "
        "retention.ms.",
        "log.local.retention.ms",
    ),
    _row(
        "local.retention.bytes",
        SettingType.LONG,
        -2,
        at_least(-2),
        "With remote.storage.enable=true: retention.bytes of the segments here, of which those that are in the tier "
        "too are deleted; -2 uses retention.bytes.",
        "log.local.retention.bytes",
    ),
)
